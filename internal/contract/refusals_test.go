package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
)

// refusal is how a call comes to be refused.
type refusal struct {
	limits fsm.Limits
	floor  holdfast.Token
	held   []holdfast.Option // of the holder of x
	call   func(ctx context.Context, c *holdfast.Cluster, opts ...holdfast.Option) error
	want   error
}

// refusals are those that the API can bring about while x is held.
func refusals() map[string]refusal {
	acquire := func(name string, add ...holdfast.Option) func(context.Context, *holdfast.Cluster, ...holdfast.Option) error {
		return func(ctx context.Context, c *holdfast.Cluster, opts ...holdfast.Option) error {
			_, err := c.Acquire(ctx, name, append(add, opts...)...)
			return err
		}
	}
	return map[string]refusal{
		"held": {want: holdfast.ErrHeld, call: func(ctx context.Context, c *holdfast.Cluster, opts ...holdfast.Option) error {
			_, err := c.TryAcquire(ctx, "x", opts...)
			return err
		}},
		"limit mismatch": {
			held: []holdfast.Option{holdfast.WithLimit(3)}, call: acquire("x", holdfast.WithLimit(2)), want: holdfast.ErrLimitMismatch,
		},
		"deadlock":       {call: acquire("x", holdfast.WithDeadlockCheck()), want: holdfast.ErrDeadlock},
		"too many locks": {limits: fsm.Limits{Locks: 1}, call: acquire("y"), want: holdfast.ErrExhausted},
		"too many in sets": {limits: fsm.Limits{Locks: 2}, want: holdfast.ErrExhausted, call: func(ctx context.Context, c *holdfast.Cluster, opts ...holdfast.Option) error {
			_, err := c.AcquireAll(ctx, []string{"{t}1", "{t}2"}, opts...)
			return err
		}},
		"values full":      {limits: fsm.Limits{ValueBytes: 1}, call: acquire("y", holdfast.WithValue([]byte("ab"))), want: holdfast.ErrExhausted},
		"tokens exhausted": {floor: fence.TokenMax - 1, call: acquire("y"), want: holdfast.ErrExhausted},
	}
}

// Of all refusals only "held" counted as an answer of a session that is open. After every other
// one, a limit that differs or a deadlock for example, the node dropped a session that the group
// had opened, and its next call opened another one: a thousand refused tries a second were a
// thousand sessions, for a TTL each. Here the group has room for the holder's session, that of the
// refused calls, and one that is about to close.
func TestRefusedCallsLeaveNoSessionsBehind(t *testing.T) {
	t.Parallel()
	const sessions = "sessions in this group"
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.limits.Sessions = 3
			c := alonely(t, r.limits, func(cfg *holdfast.Config) {
				if r.floor > 0 {
					cfg.TokenFloor = func(context.Context) (holdfast.Token, error) { return r.floor, nil }
				}
			})
			ctx := acquire(t, c, "x", r.held...).Context() // a caller that waits for x under it waits for itself
			for i, opts := range [][]holdfast.Option{{holdfast.WithTTL(time.Hour)}, {holdfast.WithTTL(time.Hour), holdfast.WithManualRenew()}} {
				for n := range 20 {
					polled(t, fmt.Sprint("refusal for its own reason ", i, n), func() bool {
						err := r.call(ctx, c, opts...)
						var full *holdfast.ExhaustedError
						if errors.As(err, &full) && full.What == sessions {
							return false
						}
						if !errors.Is(err, r.want) {
							t.Fatalf("%v, not %v", err, r.want)
						}
						return true
					})
				}
			}
		})
	}
}

// What an automatically renewed session was opened for was refused: it is closed when nothing has
// hung on it for a TTL.
func TestASessionThatARefusedCallOpenedIsClosedAsUnused(t *testing.T) {
	t.Parallel()
	c := alonely(t, fsm.Limits{Sessions: 2})
	acquire(t, c, "x", holdfast.WithLimit(3), holdfast.WithTTL(time.Hour))
	if _, err := c.Acquire(within(t, 10*time.Second), "x", holdfast.WithLimit(2), holdfast.WithTTL(100*time.Millisecond)); !errors.Is(err, holdfast.ErrLimitMismatch) {
		t.Fatal(err)
	}
	polled(t, "place for another session", func() bool {
		_, err := c.Acquire(within(t, 10*time.Second), "y", holdfast.WithTTL(time.Minute))
		return err == nil
	})
}
