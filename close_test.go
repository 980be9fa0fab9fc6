package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// closeMax is what Close may take on a machine that is busy with other tests.
const closeMax = 10 * time.Second

// closed closes c and fails the test if that takes too long or does not end as it should.
func closed(t testing.TB, c *holdfast.Cluster) {
	t.Helper()
	began := time.Now()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began); took > closeMax {
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

func TestCloseOfANodeAloneLeavesNothingBehindInAnyState(t *testing.T) {
	if !alone(t) {
		return
	}
	warm(t)
	open := func(cfg holdfast.Config) *holdfast.Cluster {
		cfg.Logger = quiet()
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	leavesNothing(t, "just opened", func() { closed(t, open(holdfast.Config{})) })
	dir := t.TempDir()
	for i := range 16 { // forming alone, a little further each time
		what := fmt.Sprintf("%d ms after Open", 20*i)
		leavesNothing(t, what, func() {
			cfg := holdfast.Config{}
			if i%2 == 0 {
				cfg.DataDir = filepath.Join(dir, fmt.Sprint(i%3)) // new, or with what an earlier one left
			}
			c := open(cfg)
			_ = c.Ready(within(t, time.Duration(20*i)*time.Millisecond))
			closed(t, c)
		})
	}
	leavesNothing(t, "waiting for peers", func() {
		c := open(holdfast.Config{Join: []string{"127.0.0.1:1", "nowhere.invalid", "file+/nowhere"}})
		if err := c.Ready(within(t, 50*time.Millisecond)); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("Ready alone of three: %v", err)
		}
		closed(t, c)
	})
	leavesNothing(t, "twice and at once", func() {
		c := open(holdfast.Config{})
		_ = c.Ready(within(t, 5*time.Second))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { closed(t, c) })
		}
		all.Wait()
		closed(t, c)
	})
	leavesNothing(t, "while the token floor is asked for", func() {
		c := open(holdfast.Config{TokenFloor: func(ctx context.Context) (holdfast.Token, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}})
		_ = c.Ready(within(t, 300*time.Millisecond))
		closed(t, c)
	})
}

func TestCloseEndsEveryLeaseAndEveryWaitingCall(t *testing.T) {
	if !alone(t) {
		return
	}
	warm(t)
	const leases, waiters = 2000, 5000
	leavesNothing(t, "thousands of leases and waiters", func() {
		c := single(t)
		held := make([]*holdfast.Lease, leases)
		var all sync.WaitGroup
		for i := range held {
			all.Go(func() {
				opts := []holdfast.Option{holdfast.WithTTL(time.Duration(1+i%7) * time.Minute)}
				if i%10 == 0 {
					opts = append(opts, holdfast.WithManualRenew())
				}
				held[i] = acquire(t, c, fmt.Sprint("held/", i), opts...)
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		for range waiters {
			all.Go(func() {
				if _, err := c.Acquire(t.Context(), "held/0"); !errors.Is(err, holdfast.ErrClosed) {
					t.Errorf("a waiter was told %v", err)
				}
			})
		}
		eventually(t, c, "all to wait", func() bool { return c.Status().Waiting == waiters })
		closed(t, c)
		for _, l := range held {
			if l.Valid() || l.Remaining() != 0 {
				t.Fatal("a lease outlived Close")
			}
			for _, err := range []error{l.Err(), context.Cause(l.Context())} {
				if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrClosed) {
					t.Fatalf("a holder was told %v", err)
				}
			}
		}
		all.Wait()
	})
}

func TestCloseAmidCallsOfEveryKindAnswersThemAll(t *testing.T) {
	if !alone(t) {
		return
	}
	warm(t)
	for round := range 5 {
		leavesNothing(t, "busy", func() {
			c := single(t)
			l := acquire(t, c, "renewed")
			var all sync.WaitGroup
			for name, call := range callsOf(c, l) {
				for range 8 {
					all.Go(func() {
						for {
							err := call(t.Context())
							if err == nil || errors.Is(err, holdfast.ErrHeld) {
								continue
							}
							if !errors.Is(err, holdfast.ErrClosed) {
								t.Errorf("round %d: %s was told %v", round, name, err)
							}
							return
						}
					})
				}
			}
			eventually(t, c, "work", func() bool { return c.Status().Applied > uint64(200+100*round) })
			closed(t, c)
			all.Wait()
		})
	}
}

// callsOf lists the calls of a node and of a lease that can be made again and again.
func callsOf(c *holdfast.Cluster, l *holdfast.Lease) map[string]func(context.Context) error {
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

func TestCallsAfterCloseAnswerErrClosed(t *testing.T) {
	t.Parallel()
	c := single(t)
	l := acquire(t, c, "renewed")
	id, addr := c.ID(), c.Addr()
	closed(t, c)
	for name, call := range callsOf(c, l) {
		if err := call(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Release after Close: %v", err)
	}
	if err := c.Leave(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
	// What does no I/O still answers.
	st := c.Status()
	if c.ID() != id || c.Addr() != addr || st.ID != id || st.Ready || st.Held != 0 || st.Waiting != 0 || st.Failure != nil {
		t.Errorf("after Close: id %s, address %s, status %+v", c.ID(), c.Addr(), st)
	}
	if m := c.Members(); len(m) != 1 || m[0].ID != id {
		t.Errorf("members after Close: %+v", m)
	}
}
