// Package objectfence guards the objects of an object store with the fencing tokens of Holdfast
// locks. Each object carries its mark in its metadata; a write is a conditional PUT that names the
// version whose mark was looked at, so check and write are one step in the store. It needs a store
// with conditional writes: S3 (If-Match, If-None-Match), Google Cloud Storage (generations), Azure
// Blobs.
//
// Do not delete guarded objects: the mark goes with the object, and a former holder's late write
// would be admitted. Write an empty one in its place.
package objectfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/holdfast-go/holdfast/fence"
)

// MetadataKey is the key of the mark in an object's metadata: letters alone, as Azure refuses a hyphen
// and proxies drop an underscore.
const MetadataKey = "fencingtoken"

// writeKey is the key of the name of the call that wrote an object, a random text.
const writeKey = "fencingwrite"

// attemptsMax is how many writes of others one write may collide with.
const attemptsMax = 100

// ErrCondition is what a Bucket returns when the condition of a Put does not hold (HTTP 412, and
// 409 of stores that say so when two conditional writes meet).
var ErrCondition = errors.New("holdfast: the object has changed")

// ErrBusy is in the error of a write that collided with a hundred others. Nothing was written.
var ErrBusy = errors.New("holdfast: the object changes too often")

// Info is what is known of an object besides its content.
type Info struct {
	Version  string            // of this very write: another write of the same bytes has another one
	Metadata map[string]string // keys in lower case
}

// Bucket is an object store, as its client is wrapped: some lines for each method. It is safe for
// concurrent use. Version is the generation of Google Cloud Storage, the ETag of Azure. The ETag of
// S3 and its like is a digest of the content: put such a bucket through Stamped.
type Bucket interface {
	// Head and Get answer an error that is fs.ErrNotExist if there is no such object.
	Head(ctx context.Context, key string) (Info, error)
	Get(ctx context.Context, key string) ([]byte, Info, error)
	// Put writes an object if the present one has that version (If-Match), or if there is none
	// where version is empty (If-None-Match: *). It returns an error that is ErrCondition if that
	// does not hold. It sends the request once: a client that repeats by itself a request whose
	// answer was lost, as those of S3 and Google Cloud Storage do by default, answers ErrCondition
	// for a write that happened.
	Put(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error
}

// Objects guards the objects of a bucket; each is a resource. It is safe for concurrent use. Use
// New.
type Objects struct{ bucket Bucket }

// New returns the guard of a bucket.
func New(b Bucket) *Objects { return &Objects{b} }

// Put writes an object unless it has seen a higher token (*fence.StaleError). What it overwrites it
// does not look at: Update is for content that depends on what is there. metadata may be nil. After
// an error of the store the write may have happened; it is safe to repeat.
func (o *Objects) Put(ctx context.Context, key string, t fence.Token, body []byte, metadata map[string]string) error {
	return o.write(ctx, key, t, false, o.head, always(body, metadata))
}

// PutOnce is Put that admits t only if the object has seen neither it nor a higher token. A
// repetition after an error of the store is refused if the first attempt was a write after all.
func (o *Objects) PutOnce(ctx context.Context, key string, t fence.Token, body []byte, metadata map[string]string) error {
	return o.write(ctx, key, t, true, o.head, always(body, metadata))
}

// Update writes what change makes of an object's content, nil if there is none, unless the object
// has seen a higher token. Its metadata stays. change is called again if somebody else writes
// meanwhile; its error ends the update and is answered. If the bucket's client repeats requests (see
// Bucket), and another writer comes between a Put and its repetition, the change is made twice.
func (o *Objects) Update(ctx context.Context, key string, t fence.Token, change func(old []byte) ([]byte, error)) error {
	if change == nil {
		return fmt.Errorf("%w: change is nil", fence.ErrInvalid)
	}
	return o.write(ctx, key, t, false, o.bucket.Get, func(old []byte, metadata map[string]string) ([]byte, map[string]string, error) {
		body, err := change(old)
		return body, metadata, err
	})
}

// Highest is the mark of an object, zero if it has none or is not there.
func (o *Objects) Highest(ctx context.Context, key string) (fence.Token, error) {
	info, err := o.bucket.Head(ctx, key)
	if err != nil {
		return 0, ignoreAbsence(err)
	}
	return mark(key, info)
}

func (o *Objects) head(ctx context.Context, key string) ([]byte, Info, error) {
	info, err := o.bucket.Head(ctx, key)
	return nil, info, err
}

func always(body []byte, metadata map[string]string) func([]byte, map[string]string) ([]byte, map[string]string, error) {
	return func([]byte, map[string]string) ([]byte, map[string]string, error) { return body, metadata, nil }
}

// write looks, judges, and puts on condition that what it saw is still there; else it begins anew.
func (o *Objects) write(ctx context.Context, key string, t fence.Token, once bool,
	look func(context.Context, string) ([]byte, Info, error),
	change func([]byte, map[string]string) ([]byte, map[string]string, error)) error {
	if ctx == nil {
		return fmt.Errorf("%w: ctx is nil", fence.ErrInvalid)
	}
	if t == 0 || t > fence.TokenMax {
		return fmt.Errorf("%w: %d for object %q", fence.ErrInvalidToken, uint64(t), key)
	}
	call := rand.Text()
	for range attemptsMax {
		old, info, err := look(ctx, key)
		if err != nil {
			if err := ignoreAbsence(err); err != nil {
				return err
			}
			old, info = nil, Info{}
		}
		if info.Metadata[writeKey] == call {
			return nil // a repetition was refused, of a Put that happened
		}
		highest, err := mark(key, info)
		if err != nil {
			return err
		}
		if t < highest || once && t == highest {
			return &fence.StaleError{Resource: key, Token: t, Highest: highest}
		}
		body, metadata, err := change(old, info.Metadata)
		if err != nil {
			return err
		}
		metadata = maps.Clone(metadata)
		if metadata == nil {
			metadata = make(map[string]string)
		}
		metadata[MetadataKey], metadata[writeKey] = t.String(), call
		if err := o.bucket.Put(ctx, key, body, metadata, info.Version); !errors.Is(err, ErrCondition) {
			return err
		}
	}
	return fmt.Errorf("%w: %q", ErrBusy, key)
}

func ignoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mark is that of an object; one that no guard has written admits nobody.
func mark(key string, info Info) (t fence.Token, err error) {
	text, ok := info.Metadata[MetadataKey]
	if !ok {
		return 0, nil
	}
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%w: of object %q: %w", fence.ErrDamaged, key, err)
	}
	return t, nil
}
