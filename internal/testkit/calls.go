package testkit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// IDs are the nodes of replicas.
func IDs(list []holdfast.Replica) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// CloseMax is what Close may take on a machine that is busy with other tests.
const CloseMax = 10 * time.Second

// Closed closes c and fails the test if that takes longer than CloseMax or does not end as it should.
func Closed(t testing.TB, c *holdfast.Cluster) {
	t.Helper()
	ClosedWithin(t, c, CloseMax)
}

// ClosedWithin is Closed with a bound of its own.
func ClosedWithin(t testing.TB, c *holdfast.Cluster, most time.Duration) {
	t.Helper()
	began := time.Now()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began); took > most {
		t.Errorf("Close took %v", took)
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is open after Close")
	}
	if err := c.Err(); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
}

// CallsOf lists the calls of a node and of a lease that can be made again and again.
func CallsOf(c *holdfast.Cluster, l *holdfast.Lease) map[string]func(context.Context) error {
	grant := func(l *holdfast.Lease, err error) error {
		if err != nil {
			return err
		}
		return l.Release(context.Background())
	}
	return map[string]func(context.Context) error{
		"Ready":      c.Ready,
		"Acquire":    func(ctx context.Context) error { return grant(c.Acquire(ctx, "a")) },
		"TryAcquire": func(ctx context.Context) error { return grant(c.TryAcquire(ctx, "b")) },
		"manual":     func(ctx context.Context) error { return grant(c.Acquire(ctx, "c", holdfast.WithManualRenew())) },
		"Do": func(ctx context.Context) error {
			return c.Do(ctx, "d", func(ctx context.Context, l *holdfast.Lease) error { return l.Renew(ctx) })
		},
		"Verify": func(ctx context.Context) error {
			if err := c.Verify(ctx, "renewed", l.Token()); !errors.Is(err, holdfast.ErrStaleToken) {
				return err
			}
			return nil // Close has given the lease back
		},
		"Inspect": func(ctx context.Context) error { _, err := c.Inspect(ctx, "a"); return err },
		"Locks": func(ctx context.Context) error {
			for _, err := range c.Locks(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"ForceRelease": func(ctx context.Context) error {
			if err := c.ForceRelease(ctx, "e", 1, "why"); !errors.Is(err, holdfast.ErrStaleToken) {
				return err
			}
			return nil
		},
		"Renew": l.Renew,
		"Set":   func(ctx context.Context) error { return l.Set(ctx, []byte("v")) },
	}
}

// CloseBound is what Close may take where waiting, not computing, takes the time: a second for
// giving the leases back, two election timeouts for a raft leader's farewell, and a probe of gossip
// that is under way.
const CloseBound = 5 * time.Second

// LeaveMax is what Leave may take in a fleet that is well.
const LeaveMax = 3 * time.Second
