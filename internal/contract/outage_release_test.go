package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// lastRelease starts a call on a node that is cut off while the function of the call runs, and returns
// what the call returns, and when it does.
func lastRelease(t *testing.T, s *sim.Sim, call func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(until(time.Hour))
	returns, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- call(ctx, func(ctx context.Context, _ *holdfast.Lease) error {
			defer close(returns)
			s.Node(0).Isolate()
			cancel()
			return context.Cause(ctx)
		})
	}()
	<-returns
	return ended
}

// A call whose function has returned waits for its release, also when its context has ended: a TTL at
// most, or until the node closes.
func TestACallWaitsForItsLastReleaseATTLAtMost(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		c := s.Node(0).Cluster()
		for name, call := range map[string]func(context.Context, func(context.Context, *holdfast.Lease) error) error{
			"Do": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
				return c.Do(ctx, "do", fn, holdfast.WithTTL(ttl))
			},
			"Lead": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
				return c.Lead(ctx, "lead", fn, holdfast.WithTTL(ttl))
			},
			"Once": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
				_, err := c.Once(ctx, "once", fn, holdfast.WithTTL(ttl))
				return err
			},
			"Every": func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
				return c.Every(ctx, "every", time.Second, func(ctx context.Context, _ time.Time, l *holdfast.Lease) error {
					_ = fn(ctx, l)
					return nil // the slot is to be recorded
				}, holdfast.WithTTL(ttl))
			},
		} {
			ended, began := lastRelease(t, s, call), time.Now()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took < ttl/2 || took > ttl {
				t.Errorf("%s waited for %v", name, took)
			}
			s.Node(0).Rejoin()
			if err := c.Ready(until(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		ended := lastRelease(t, s, func(ctx context.Context, fn func(context.Context, *holdfast.Lease) error) error {
			return c.Do(ctx, "closed", fn, holdfast.WithTTL(ttl))
		})
		began := time.Now()
		s.Node(0).Close()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > 5*time.Second {
			t.Errorf("Do ended %v after Close began: %v", time.Since(began), err)
		}
	})
}

// An outage began while the function ran, which resigned by returning before its lease was over. The release
// came too late, so Lead took the leadership for lost: it dropped the error, and called the function again.
func TestAFunctionThatHasResignedIsNotCalledAgainForALossAfterThat(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		n, mine := s.Node(0), errors.New("mine")
		for _, of := range []string{"Lead", "Do"} {
			call := n.Cluster().Lead
			if of == "Do" {
				call = n.Cluster().Do
			}
			for _, returns := range []error{nil, mine} {
				calls := 0
				err := call(until(time.Hour), of, func(_ context.Context, l *holdfast.Lease) error {
					if calls++; calls > 1 {
						return nil
					}
					n.Isolate()
					time.Sleep(ttl / 2)
					if err := l.Err(); err != nil {
						t.Errorf("the test is void: %v", err)
					}
					time.AfterFunc(ttl*3/4, n.Rejoin) // after the end of the lease
					return returns
				}, holdfast.WithTTL(ttl))
				lost := errors.Is(err, holdfast.ErrLost) // of the lock, which the caller of Do is to know
				if calls != 1 || returns != nil && !errors.Is(err, returns) || lost != (of == "Do") || !lost && err != returns {
					t.Errorf("%s was to return %v: %v after %d calls", of, returns, err, calls)
				}
				if err := n.Cluster().Ready(until(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A holder that an operator has deposed while its node was cut off hears so from what it writes to first. It
// has not resigned.
func TestALeaderThatAGuardRefusesCampaignsAgain(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: longTTL}, func(s *sim.Sim) {
		calls := 0
		err := s.Node(0).Cluster().Lead(until(time.Hour), "lead", func(_ context.Context, l *holdfast.Lease) error {
			if calls++; calls > 1 {
				return nil
			}
			s.Node(0).Isolate()
			if err := s.Node(1).Cluster().ForceRelease(until(time.Minute), "lead", l.Token(), "a test"); err != nil {
				t.Error(err)
			}
			if err := l.Err(); err != nil {
				t.Errorf("the test is void: %v", err)
			}
			time.AfterFunc(time.Second, s.Node(0).Rejoin)
			return holdfast.ErrStaleToken
		}, holdfast.WithTTL(time.Hour))
		if calls != 2 || err != nil {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}
