package objectfence

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// store is a bucket that checks conditions as the stores do. Its versions count, or are digests as
// in S3.
type store struct {
	mu        sync.Mutex
	objects   map[string]object
	digests   bool
	writes    int
	beforePut func() // what others do between the look and the write
	failPut   error  // the answer of a write that happened
	repeats   bool   // as clients that repeat a request whose answer was lost do
}

type object struct {
	body []byte
	info Info
}

func newStore() *store { return &store{objects: make(map[string]object)} }

func (s *store) Get(ctx context.Context, key string) ([]byte, Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return nil, Info{}, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	}
	return o.body, o.info, ctx.Err()
}

func (s *store) Head(ctx context.Context, key string) (Info, error) {
	_, info, err := s.Get(ctx, key)
	return info, err
}

func (s *store) Put(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error {
	if s.beforePut != nil {
		hook := s.beforePut
		s.beforePut = nil
		hook()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if present, ok := s.objects[key]; ok != (version != "") || ok && present.info.Version != version {
		return fmt.Errorf("412: %w", ErrCondition)
	}
	s.writes++
	next := fmt.Sprint(s.writes)
	if s.digests {
		next = fmt.Sprintf("%x", md5.Sum(body))
	}
	s.objects[key] = object{append([]byte(nil), body...), Info{next, maps.Clone(metadata)}}
	if s.repeats {
		return fmt.Errorf("412: %w", ErrCondition)
	}
	return errors.Join(ctx.Err(), s.failPut)
}

func wantStale(t *testing.T, err error, want fence.StaleError) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != want {
		t.Errorf("%v; want %v", err, &want)
	}
}

func TestAnObjectKeepsTheContractOfAGuard(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(), t.Context()
	o := New(s)
	put := func(token fence.Token, body string) error {
		return o.Put(ctx, "k", token, []byte(body), map[string]string{"by": token.String()})
	}
	if err := errors.Join(put(5, "a"), put(5, "b"), put(9, "c")); err != nil {
		t.Error(err)
	}
	wantStale(t, put(8, "d"), fence.StaleError{Resource: "k", Token: 8, Highest: 9})
	wantStale(t, o.PutOnce(ctx, "k", 9, []byte("e"), nil), fence.StaleError{Resource: "k", Token: 9, Highest: 9})
	for _, token := range []fence.Token{0, fence.TokenMax + 1} {
		if err := put(token, "f"); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", uint64(token), err)
		}
	}
	if body, info, err := s.Get(ctx, "k"); err != nil || string(body) != "c" || info.Metadata["by"] != "9" || info.Metadata[MetadataKey] != "9" {
		t.Errorf("%q, %v, %v", body, info, err)
	}
	if err := o.PutOnce(ctx, "k", fence.TokenMax, []byte("g"), nil); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]fence.Token{"k": fence.TokenMax, "none": 0} {
		if mark, err := o.Highest(ctx, key); err != nil || mark != want {
			t.Errorf("%s: mark %v, %v", key, mark, err)
		}
	}
}

func TestAForeignMarkAdmitsNothingAndAnObjectWithoutOneAnybody(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"", "-1", "abc", "1e3", "9007199254740992"} {
		s := newStore()
		s.objects["k"] = object{[]byte("foreign"), Info{"v", map[string]string{MetadataKey: mark}}}
		o := New(s)
		err := errors.Join(o.Put(t.Context(), "k", 5, nil, nil), o.PutOnce(t.Context(), "k", 5, nil, nil))
		if _, err2 := o.Highest(t.Context(), "k"); !errors.Is(err, fence.ErrDamaged) || !errors.Is(err2, fence.ErrDamaged) || s.writes > 0 {
			t.Errorf("mark %q: %v, %v", mark, err, err2)
		}
	}
	s := newStore()
	s.objects["k"] = object{[]byte("older than the guard"), Info{"v", nil}}
	if err := New(s).Put(t.Context(), "k", 5, []byte("x"), nil); err != nil {
		t.Error(err)
	}
}

// The former holder has looked, and the next one writes before it does: the condition is what stops
// it.
func TestAWriteBetweenTheLookAndThePutIsSeen(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"new", "old"} {
		s, ctx := newStore(), t.Context()
		o := New(s)
		if key == "old" {
			if err := o.Put(ctx, key, 4, []byte("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
		s.beforePut = func() {
			if err := o.Put(ctx, key, 6, []byte("next"), nil); err != nil {
				t.Error(err)
			}
		}
		wantStale(t, o.Put(ctx, key, 5, []byte("former"), nil), fence.StaleError{Resource: key, Token: 5, Highest: 6})
		if body, _, err := s.Get(ctx, key); err != nil || string(body) != "next" {
			t.Errorf("%q, %v", body, err)
		}
	}
}

// With digests for versions, a write of the same bytes hides behind the one before it; Stamped is
// the cure, and without it the very same story ends with the former holder's write in the store.
func TestWritesOfTheSameBytesAreToldApartByTheirStamps(t *testing.T) {
	t.Parallel()
	story := func(s *store, b Bucket) error {
		o, ctx := New(b), t.Context()
		if err := o.Put(ctx, "k", 4, []byte("same"), nil); err != nil {
			t.Fatal(err)
		}
		s.beforePut = func() {
			if err := o.Put(ctx, "k", 6, []byte("same"), nil); err != nil {
				t.Error(err)
			}
		}
		return o.Put(ctx, "k", 5, []byte("late"), nil)
	}
	bare := newStore()
	bare.digests = true
	if err := story(bare, bare); err != nil {
		t.Errorf("the danger that Stamped is for is not there: %v", err)
	}
	s := newStore()
	s.digests = true
	wantStale(t, story(s, Stamped(s)), fence.StaleError{Resource: "k", Token: 5, Highest: 6})
	if body, _, err := Stamped(s).Get(t.Context(), "k"); err != nil || string(body) != "same" {
		t.Errorf("%q, %v", body, err)
	}
	if raw, _, err := s.Get(t.Context(), "k"); err != nil || len(raw) != StampSize+len("same") || string(raw[StampSize:]) != "same" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestSixtyFourWritersWithRandomTokens(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.digests = true
	var mu sync.Mutex
	accepted, refused := make(map[string]bool), 0
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 5 {
				token := 1 + rand.N(fence.Token(60))
				id := fmt.Sprintf("%d:%d.%d", token, w, i)
				err := New(Stamped(s)).Update(t.Context(), "k", token, func(old []byte) ([]byte, error) { return append(old, id+" "...), nil })
				mu.Lock()
				switch {
				case err == nil:
					accepted[id] = true
				case errors.Is(err, fence.ErrStale):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	body, _, err := Stamped(s).Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	var last fence.Token
	ids := strings.Fields(string(body))
	for _, id := range ids {
		number, _, _ := strings.Cut(id, ":")
		var token fence.Token
		if err := token.UnmarshalText([]byte(number)); err != nil || token < last || !accepted[id] {
			t.Errorf("%s after %v, accepted: %t (%v)", id, last, accepted[id], err)
		}
		last = token
	}
	if len(ids) != len(accepted) || refused == 0 {
		t.Errorf("%d written, %d accepted, %d refused", len(ids), len(accepted), refused)
	}
}

// The answer to a PUT is lost, the store's client repeats it by itself, and the repetition is
// refused. The change was made twice.
func TestAWriteThatItsClientRepeatsIsMadeOnce(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(), t.Context()
	s.repeats = true
	o := New(Stamped(s))
	count := func(old []byte) ([]byte, error) { return append(old, '+'), nil }
	for token := fence.Token(5); token < 8; token++ {
		if err := o.Update(ctx, "counter", token, count); err != nil {
			t.Error(err)
		}
		if err := o.PutOnce(ctx, "once", token, nil, nil); err != nil {
			t.Errorf("its own write stopped it: %v", err)
		}
	}
	if body, _, err := Stamped(s).Get(ctx, "counter"); err != nil || string(body) != "+++" {
		t.Errorf("three changes: %q, %v", body, err)
	}
}

func TestFailuresOfTheStoreAndOfTheCallerAreAnsweredAsTheyAre(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(), t.Context()
	o := New(s)
	s.failPut = io.ErrUnexpectedEOF // the answer was lost
	if err := o.Put(ctx, "k", 5, []byte("x"), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	s.failPut = nil
	if err := o.Put(ctx, "k", 5, []byte("x"), nil); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if err := o.Update(ctx, "k", 5, func([]byte) ([]byte, error) { return nil, io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	wantStale(t, o.Update(ctx, "k", 4, func([]byte) ([]byte, error) { t.Error("change was called"); return nil, nil }),
		fence.StaleError{Resource: "k", Token: 4, Highest: 5})
	var none context.Context
	if err := errors.Join(o.Put(none, "k", 5, nil, nil), o.Update(ctx, "k", 5, nil)); !errors.Is(err, fence.ErrInvalid) {
		t.Error(err)
	}
	var collide func()
	collide = func() {
		s.mu.Lock()
		present := s.objects["k"]
		present.info.Version += "'"
		s.objects["k"] = present
		s.mu.Unlock()
		s.beforePut = collide
	}
	s.beforePut = collide
	if err := o.Put(ctx, "k", 6, nil, nil); !errors.Is(err, ErrBusy) || errors.Is(err, fence.ErrStale) {
		t.Errorf("collisions without end: %v", err)
	}
}
