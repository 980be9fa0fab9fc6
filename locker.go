package holdfast

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// tryTime bounds Locker.TryLock.
const tryTime = 5 * time.Second

// Locker is a lock of the fleet as a sync.Locker, for code that requires one. Such code cannot receive
// the news that it has lost its lock: the policy for that is a function, and there is no default.
// Locker is safe for concurrent use; callers of one process exclude each other as callers of several
// processes do.
type Locker struct {
	c      *Cluster
	name   string
	onLoss func(error)
	o      options

	mu    sync.Mutex
	lease *Lease
	owed  int // calls of Unlock that are still to come for leases that were lost before this one
}

// Locker makes a sync.Locker of the lock name. onLoss, which must not be nil, is called, on a
// goroutine of its own, when a lease ends before Unlock, with an error that is ErrLost: what the
// lock guards may have another holder from then on. A program that cannot stop its work there ends
// itself. onLoss is also called when Lock or TryLock meets an error that a further call would meet
// again, when Lock meets a limit, and for an Unlock without a Lock. TryLock waits for no holder, so
// WithPriority is of no concern to it. Errors: ErrInvalid for name, onLoss and opts;
// WithManualRenew, WithDeadlockCheck, WithShared and WithLimit are not for it.
func (c *Cluster) Locker(name string, onLoss func(error), opts ...Option) (*Locker, error) {
	if err := checkText("name", name, 1, NameMax); err != nil {
		return nil, err
	}
	if onLoss == nil {
		return nil, invalid("onLoss", "is nil")
	}
	o, err := gather(&c.cfg, callLocker, opts)
	if err != nil {
		return nil, err
	}
	return &Locker{c: c, name: name, onLoss: onLoss, o: o}, nil
}

// Lock waits for the lock for as long as it takes. It never returns without the lock: if the node
// was closed or has failed, or a limit is reached, onLoss is called, and then the calling goroutine
// ends, with its deferred calls (runtime.Goexit).
func (k *Locker) Lock() {
	l, err := k.ask(context.Background(), true)
	if err != nil {
		k.onLoss(err)
		runtime.Goexit()
	}
	k.keep(l)
}

// TryLock reports whether the lock was free and is held now. It waits for no holder, and for the answer
// of the group for 5 s at most: false also means that no answer came, or that a limit is reached
// (ErrExhausted). A grant whose answer was lost is given back in the background. If the node was closed
// or has failed, or the name is in use as a semaphore, TryLock calls onLoss and returns false: so will
// each further call.
func (k *Locker) TryLock() bool {
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	l, err := k.ask(ctx, false)
	if err == nil {
		k.keep(l)
		return true
	}
	if ctx.Err() == nil && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrExhausted) {
		k.onLoss(err)
	}
	return false
}

func (k *Locker) ask(ctx context.Context, wait bool) (*Lease, error) {
	if err := k.c.stopped(); err != nil {
		return nil, err
	}
	return k.c.ask(ctx, k.name, wait, k.o)
}

func (k *Locker) keep(l *Lease) {
	k.mu.Lock()
	if k.lease != nil {
		k.owed++
	}
	// A lease that was lost before it came here has a lower token. Tokens of two groups do not compare: the lease
	// of one that yielded is lost.
	if k.lease == nil || !k.lease.Valid() || k.lease.Token() < l.Token() {
		k.lease = l
	}
	k.mu.Unlock()
	context.AfterFunc(l.Context(), func() {
		if err := l.Err(); errors.Is(err, ErrLost) {
			k.onLoss(err)
		}
	})
}

// Unlock releases the lock. It returns when the group has confirmed that, or after a TTL; then the
// release goes on in the background. After a loss, for which onLoss was called, Unlock does nothing, but
// it must be called all the same: if it is left out, the next holder's Unlock counts as the missing
// one, and that holder's lock stays taken. A loss that Unlock is the first to hear of is told to onLoss,
// too.
func (k *Locker) Unlock() {
	k.mu.Lock()
	if k.owed > 0 {
		k.owed--
		k.mu.Unlock()
		return
	}
	l := k.lease
	k.lease = nil
	k.mu.Unlock()
	if l == nil {
		k.onLoss(invalid("Unlock", "%q is not locked", k.name))
		return
	}
	end, done := l.endTime(context.Background())
	defer done()
	// An unanswered release goes on in the background. A loss before it has reached onLoss by keep; one that the
	// group tells only now has not.
	if err := l.Release(end); errors.Is(err, ErrLost) && errors.Is(l.Err(), ErrReleased) {
		go k.onLoss(err)
	}
}

// Token is the fencing token of the last call of Lock or TryLock that got the lock, zero after the last
// Unlock. A caller reads it once, right after Lock, and keeps it: when it has lost the lock, another
// caller of this Locker may have it, and Token is that one's.
func (k *Locker) Token() Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lease == nil {
		return 0
	}
	return k.lease.Token()
}
