package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
)

// Locker is a lock of the fleet as goose asks for one: give it to goose.WithLocker or to
// goose.WithSessionLocker, which here do the same. WithLocker is the better one: with a session
// locker goose refuses Go migrations without a transaction on a pool of one connection. A Locker
// may serve several providers, and is safe for concurrent use. Use New.
type Locker struct {
	cluster *holdfast.Cluster
	name    string
	opts    []holdfast.Option
	wrong   error // what New found, for Lock

	turn  chan struct{} // has one element while a provider of this process holds the lock or waits for it
	lease atomic.Pointer[holdfast.Lease]
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// ErrNotLocked is the error of an unlock without a lock.
var ErrNotLocked = errors.New("gooselock: not locked")

// New returns the locker of the lock name, which all processes that migrate one database give
// alike. opts are those of Cluster.Locker: what leaves the lock to two holders
// (WithShared, WithLimit) or lets it end in the middle of a migration (WithManualRenew) is not for
// it. What is wrong with c, name or opts, Lock says: ErrInvalid.
func New(c *holdfast.Cluster, name string, opts ...holdfast.Option) *Locker {
	return &Locker{cluster: c, name: name, opts: opts, wrong: lockoptions.Check(c, name, opts), turn: make(chan struct{}, 1)}
}

// Token is the fencing token under which the lock is held, zero if it is not. A Go migration gives
// it to resources outside of the database.
func (l *Locker) Token() holdfast.Token {
	lease := l.lease.Load()
	if lease == nil {
		return 0
	}
	return lease.Token()
}

// Lock waits for the lock until ctx ends. Errors are those of Cluster.Acquire. goose calls it; it
// does not touch db.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error { return l.acquire(ctx) }

// Unlock releases the lock. It returns holdfast.ErrLost if the lease was lost before, which the
// provider's call returns together with its own error: migrations that it counts as applied may
// then have been refused or run by somebody else.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.release(ctx) }

// SessionLock is Lock.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.acquire(ctx) }

// SessionUnlock is Unlock.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.release(ctx) }

func (l *Locker) acquire(ctx context.Context) error {
	if l.wrong != nil {
		return l.wrong
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("gooselock: this process holds lock %q: %w", l.name, context.Cause(ctx))
	}
	lease, err := l.cluster.Acquire(ctx, l.name, l.opts...)
	if err != nil {
		<-l.turn
		return err
	}
	l.lease.Store(lease)
	if w, ok := ctx.Value(watchKey{}).(*watch); ok {
		w.begin(lease)
	}
	return nil
}

func (l *Locker) release(ctx context.Context) error {
	lease := l.lease.Swap(nil)
	if lease == nil {
		return ErrNotLocked
	}
	defer func() { <-l.turn }()
	if w, ok := ctx.Value(watchKey{}).(*watch); ok {
		w.end()
	}
	// Whether the group has heard of the end in time does not matter to who migrated: the lease is
	// over, and the lock is freed in the background.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Remaining())
	defer cancel()
	if err := lease.Release(bounded); errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

// watchKey is the key of a *watch in a context.
type watchKey struct{}

// watch ends a context when the lease that was acquired under it is lost.
type watch struct {
	cancel context.CancelCauseFunc
	stop   func() bool // one lease at a time: goose unlocks before it locks again
}

func (w *watch) begin(lease *holdfast.Lease) {
	held := lease.Context()
	w.stop = context.AfterFunc(held, func() { w.cancel(context.Cause(held)) })
}

func (w *watch) end() { w.stop() }

// Context returns a context for the calls of one provider, one after the other. It ends with
// parent, with cancel, and when the lease is lost under which a call migrates: context.Cause is
// holdfast.ErrLost then. database/sql rolls the open transaction back, and goose begins no further
// migration. A locker has no other way to stop goose.
func Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	return context.WithValue(ctx, watchKey{}, &watch{cancel: cancelCause}), func() { cancelCause(nil) }
}
