package main

import (
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

// claim waits until the command may run. It is nil if the Once key is finished.
func (f *runFlags) claim(ctx context.Context, c *holdfast.Cluster, name string, command []string) (*claim, error) {
	if f.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.wait)
		defer cancel()
	}
	got := &claim{}
	opts := f.options(command)
	if f.once != "" {
		finished, err := got.begin(ctx, c, f, opts)
		if finished || err != nil {
			return nil, notGot(err)
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
		return nil, notGot(err)
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
		return result.Finished, err
	}
	return false, &exit{codeTemporary, fmt.Errorf("the key %q is run by %s now", f.once, result.By.Node), "Leave out --nonblock to wait for it."}
}

// notGot makes the end of --wait the same as --nonblock.
func notGot(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrNoQuorum) {
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
