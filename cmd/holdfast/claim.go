package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

// endMax is how long giving a lock back may take. Without an answer it is free after its TTL.
const endMax = 5 * time.Second

// claim is what a command runs under: a lock, the run of a Once key, or both.
type claim struct {
	lock *holdfast.Lease
	once *holdfast.Run
}

// claim waits until the command may run: with --nonblock for the fleet's answer alone, within timeout. It is
// nil if the Once key is finished.
func (f *runFlags) claim(ctx context.Context, c *holdfast.Cluster, timeout time.Duration, name string, command []string) (*claim, error) {
	limit := f.wait
	if f.nonblock {
		limit = timeout
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	got := &claim{}
	opts := f.options(command)
	if f.once != "" {
		finished, err := got.begin(ctx, c, f, opts)
		if finished || err != nil {
			return nil, f.notGot(err)
		}
	}
	if name == "" {
		return got, nil
	}
	acquire := c.Acquire
	if f.nonblock {
		acquire = c.TryAcquire
	}
	var err error
	if got.lock, err = acquire(ctx, name, append(opts, f.kind()...)...); err != nil {
		_, _ = got.end(false)
		return nil, f.notGot(err)
	}
	return got, nil
}

// begin begins the run of the Once key, unless it is finished.
func (got *claim) begin(ctx context.Context, c *holdfast.Cluster, f *runFlags, opts []holdfast.Option) (finished bool, err error) {
	opts = append(opts[:len(opts):len(opts)], holdfast.WithKeepFor(f.keepFor))
	if !f.nonblock {
		opts = append(opts, holdfast.WithWait())
	}
	run, result, err := c.BeginOnce(ctx, f.once, opts...)
	switch {
	case err != nil || run != nil || result.Finished:
		got.once = run
		return result.Finished, keyError(f.once, err)
	}
	return false, keyError(f.once, &holdfast.HeldError{Holder: result.By})
}

// keyError says of a key what a HeldError says of a lock, and leaves any other error.
func keyError(key string, err error) error {
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok {
		return err
	}
	by := cmp.Or(who(held.Holder), "another call")
	return &exit{codeTemporary, fmt.Errorf("the key %q is run by %s now", key, by), "See `holdfast once KEY` for its run."}
}

// notGot makes the end of --wait the same as --nonblock.
func (f *runFlags) notGot(err error) error {
	if f.wait > 0 && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrNoQuorum) {
		e := asExit(err)
		return &exit{codeTemporary, err, e.advice}
	}
	return err
}

// leases are those that must not be lost while the command runs.
func (got *claim) leases() (list []*holdfast.Lease) {
	if got.once != nil {
		list = append(list, got.once.Lease())
	}
	if got.lock != nil {
		list = append(list, got.lock)
	}
	return list
}

// environment is ours with the token and the name: of the lock, or of the key if there is no lock.
func (got *claim) environment() []string {
	leases := got.leases()
	return environment(leases[len(leases)-1])
}

func environment(l *holdfast.Lease) []string {
	return append(os.Environ(), "HOLDFAST_TOKEN="+l.Token().String(), "HOLDFAST_LOCK="+l.Name())
}

// end gives back what there is: a run that was finished is recorded. The errors are those of the key
// and of the lock.
func (got *claim) end(finished bool) (key, lock error) {
	ctx, cancel := context.WithTimeout(context.Background(), endMax)
	defer cancel()
	if got.once != nil {
		if finished {
			key = got.once.Finish(ctx)
		} else {
			key = got.once.Abandon(ctx)
		}
	}
	if got.lock != nil {
		lock = got.lock.Release(ctx)
	}
	return key, lock
}
