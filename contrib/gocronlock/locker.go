package gocronlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/lockoptions"
)

// Prefix stands before a job's name in the name of its lock.
const Prefix = "gocron/"

// patience bounds how long a tick waits for the group: one that is decided late is skipped.
const patience = 5 * time.Second

// Locker is a gocron.Locker: for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker.
// It is safe for concurrent use.
type Locker struct {
	c       *holdfast.Cluster
	bound   time.Duration
	options []holdfast.Option
}

// NewLocker makes a Locker for jobs between two ticks of which there is at least every: one minute
// for "* * * * *". The schedulers' clocks may differ by less than half of every. Give jobs with
// longer periods a Locker of their own, as what it bears grows with every. WithMinHold among opts
// is the time that a lock is kept instead of half of every.
//
// every is at least 2 ms; half of it counts as HoldMax at most. Errors: ErrInvalid for a nil c, every and
// opts; WithManualRenew, WithShared, WithLimit and WithPriority are not for it.
func NewLocker(c *holdfast.Cluster, every time.Duration, opts ...holdfast.Option) (*Locker, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: c is nil", holdfast.ErrInvalid)
	}
	hold := min(every/2, holdfast.HoldMax)
	if hold < time.Millisecond {
		return nil, fmt.Errorf("%w: every is %v: less than 2ms", holdfast.ErrInvalid, every)
	}
	options := append([]holdfast.Option{holdfast.WithMinHold(hold)}, opts...)
	// A wrong option would skip every tick, and gocron logs nothing of that.
	if err := lockoptions.CheckTry(c, Prefix, options); err != nil {
		return nil, err
	}
	return &Locker{c: c, bound: min(hold, patience), options: options}, nil
}

// Lock tries to lock the job, and returns after half of every or five seconds at the latest. An
// error means that the job is skipped at this tick: one that is ErrHeld, which is a *HeldError,
// that another scheduler runs it, or has run it. gocron.AfterLockError is told of errors; without
// it nobody is.
func (k *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, k.bound)
	defer cancel()
	lease, err := k.c.TryAcquire(ctx, Prefix+job, k.options...)
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ lease *holdfast.Lease }

// Unlock releases the lock although gocron's context has ended, as it has when the scheduler is
// shut down. What five seconds do not suffice for goes on in the background.
func (l lock) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return l.lease.Release(ctx)
}
