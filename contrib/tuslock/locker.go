package tuslock

import (
	"context"
	"errors"
	"fmt"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
)

// Locker makes the locks of uploads. It is safe for concurrent use. Use New.
type Locker struct {
	cluster *holdfast.Cluster
	prefix  string
	opts    []holdfast.Option
	wrong   error // what New found, for NewLock
}

var _ handler.Locker = (*Locker)(nil)

// New returns the locker of a store: the name of an upload's lock is its ID behind prefix, 512
// bytes together. All processes on one store give the same prefix. opts are those of
// Cluster.Locker: what leaves an upload to two requests (WithShared, WithLimit) or lets the lock end
// in the middle of one (WithManualRenew) is not for it. What is wrong with c, prefix or opts, NewLock
// says: holdfast.ErrInvalid. A TTL well below the handler's AcquireLockTimeout, 20 s by default, lets
// a client resume in time where a process was killed.
func New(c *holdfast.Cluster, prefix string, opts ...holdfast.Option) *Locker {
	return &Locker{cluster: c, prefix: prefix, opts: opts, wrong: lockoptions.Check(c, prefix+"x", opts)}
}

// UseIn gives the locker to a handler's composer.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload, not yet held, for one request. The id is of the request's
// path. The error is handler.ErrNotFound for one that names no lock, being too long, no UTF-8 or with
// control characters: other errors are answered with 500 and logged as errors, which strangers could
// cause at will.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	if l.wrong != nil {
		return nil, fmt.Errorf("tuslock: %w", l.wrong)
	}
	name := l.prefix + id
	if err := lockoptions.Check(l.cluster, name, l.opts); err != nil { // it is the name: New has checked the rest
		return nil, errors.Join(handler.ErrNotFound, fmt.Errorf("tuslock: %w", err))
	}
	return &lock{locker: l, name: name}, nil
}

// lock belongs to one request, which calls its methods one after the other.
type lock struct {
	locker *Locker
	name   string
	lease  *holdfast.Lease // nil: not held
}

// Lock waits for the lock. From then on requestUnlock is called at most once: when another request
// wants the upload, or when the lease is lost. If ctx ends first the error is
// handler.ErrLockTimeout.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	lease, err := l.locker.cluster.Acquire(ctx, l.name, l.locker.opts...)
	if err != nil && ctx.Err() != nil {
		return errors.Join(handler.ErrLockTimeout, err)
	}
	if err != nil {
		return fmt.Errorf("tuslock: %w", err)
	}
	l.lease = lease
	// It ends with the lease, which the request releases or the group ends.
	go func() {
		select {
		case <-lease.Wanted():
			requestUnlock()
		case <-lease.Done():
			if errors.Is(lease.Err(), holdfast.ErrLost) {
				requestUnlock()
			}
		}
	}()
	return nil
}

// Unlock releases the lock. It returns holdfast.ErrLost if the lease was lost before.
func (l *lock) Unlock() error {
	if l.lease == nil {
		return errors.New("tuslock: not locked")
	}
	// Whether the group has heard of the end in time does not matter to the request: the lease is
	// over, and the lock is freed in the background.
	bounded, cancel := context.WithTimeout(context.Background(), l.lease.Remaining())
	defer cancel()
	if err := l.lease.Release(bounded); errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}
