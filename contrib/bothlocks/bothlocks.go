// Package bothlocks holds the lock of another system and the lock of Holdfast of the same name at
// once, for the time in which a service moves from the one to the other. Processes that hold the old
// lock alone and processes that hold the new one alone never run together: between them every
// process holds both. docs/migrating.md shows the three deployments.
package bothlocks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ErrOldLost is in the error of a call that has lost the old lock, and the cause of its context.
// What refreshes an old lock returns it when the old system says that the lock is another's.
var ErrOldLost = errors.New("holdfast: the lock of the old system is lost")

// releaseTime bounds the release of the old lock.
const releaseTime = 10 * time.Second

// Old waits for the lock of the old system until ctx ends. It must be the lock that the processes
// of before take, by the same key.
type Old func(ctx context.Context, name string) (Held, error)

// Held is a lock of the old system that is held.
type Held struct {
	Lost    <-chan struct{}             // is closed when the lock may have another holder; nil: never
	Release func(context.Context) error // is called once
}

// Locks takes both locks. It is safe for concurrent use as Old is. Use New.
type Locks struct {
	cluster *holdfast.Cluster
	old     Old
}

// New returns the locks of a cluster beside those of the old system.
func New(cluster *holdfast.Cluster, old Old) *Locks { return &Locks{cluster, old} }

// Do is Cluster.Do with the old lock held around it: it waits for the old lock, then for the new one,
// runs fn, and releases them in the reverse order. Every process takes them in this order, so none
// waits for another in a circle. The context of fn ends when either lock is lost; the error is then
// ErrOldLost or holdfast.ErrLost, also if fn returns nil. If the release of the old lock fails, the
// error says so, and the work was done.
func (l *Locks) Do(ctx context.Context, name string, fn func(context.Context, *holdfast.Lease) error, opts ...holdfast.Option) (err error) {
	held, err := l.old(ctx, name)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		if failed := held.Release(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("holdfast: releasing the old lock %q: %w", name, failed))
		}
	}()
	ctx, stop := until(ctx, held.Lost)
	defer stop()
	err = l.cluster.Do(ctx, name, func(ctx context.Context, lease *holdfast.Lease) error {
		if isClosed(held.Lost) {
			return ErrOldLost // ctx may not have ended yet
		}
		if err := fn(ctx, lease); err != nil || !isClosed(held.Lost) {
			return err
		}
		return ErrOldLost
	}, opts...)
	if err != nil && isClosed(held.Lost) && !errors.Is(err, ErrOldLost) {
		err = errors.Join(ErrOldLost, err)
	}
	return err
}

// until is ctx that ends with ErrOldLost when lost is closed. stop returns when its goroutine has
// ended.
func until(ctx context.Context, lost <-chan struct{}) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-lost:
			cancel(ErrOldLost)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Renewed is a lock of the old system that its holder must refresh: granted by a call that began at
// since, for ttl, at least a millisecond. It calls refresh every third of ttl until the release. The
// lock is lost when refresh returns ErrOldLost, and when ttl is over since the begin of the last call
// that succeeded, also while a call is under way that heeds no context.
//
// The clock of Go's timers stands still while the machine is suspended: that time does not count, and
// the loss of the old lock is noticed late by it. On Linux the lease of Holdfast counts it. So give Do
// a WithTTL that is not longer than ttl: then Lease.Valid is false at the first look after the machine
// woke, and the context of the function ends within a second.
func Renewed(since time.Time, ttl time.Duration, refresh, release func(context.Context) error) Held {
	ttl = max(ttl, time.Millisecond)
	ctx, stop := context.WithCancel(context.Background())
	lost := make(chan struct{})
	lose := sync.OnceFunc(func() { close(lost) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		renew(ctx, since.Add(ttl), ttl, refresh, lose)
	}()
	return Held{lost, func(ctx context.Context) error {
		stop()
		select {
		case <-ended:
			return release(ctx)
		case <-ctx.Done():
			return fmt.Errorf("holdfast: the last refresh has not returned: %w", ctx.Err())
		}
	}}
}

// renew keeps a lock until ctx ends, and calls lose when the lock is lost or its time is over.
func renew(ctx context.Context, until time.Time, ttl time.Duration, refresh func(context.Context) error, lose func()) {
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	expiry := time.AfterFunc(time.Until(until), lose)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		attempt, cancel := context.WithDeadline(ctx, until)
		err := refresh(attempt)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !expiry.Stop() {
				return // the answer came too late
			}
			until = began.Add(ttl)
			expiry.Reset(time.Until(until))
		case errors.Is(err, ErrOldLost) || !time.Now().Add(ttl/3).Before(until):
			lose() // the next attempt would come too late
			return
		}
	}
}
