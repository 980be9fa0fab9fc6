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
