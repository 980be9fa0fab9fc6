package processes_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestCloseOfANodeAloneLeavesNothingBehindInAnyState(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	open := func(cfg holdfast.Config) *holdfast.Cluster {
		cfg.Logger = testkit.Quiet()
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	leavesNothing(t, "just opened", func() { testkit.Closed(t, open(holdfast.Config{})) })
	dir := t.TempDir()
	for i := range 16 { // forming alone, a little further each time
		what := fmt.Sprintf("%d ms after Open", 20*i)
		leavesNothing(t, what, func() {
			cfg := holdfast.Config{}
			if i%2 == 0 {
				cfg.DataDir = filepath.Join(dir, fmt.Sprint(i%3)) // new, or with what an earlier one left
			}
			c := open(cfg)
			_ = c.Ready(testkit.Within(t, time.Duration(20*i)*time.Millisecond))
			testkit.Closed(t, c)
		})
	}
	leavesNothing(t, "waiting for peers", func() {
		c := open(holdfast.Config{Join: []string{"127.0.0.1:1", "nowhere.invalid", "file+/nowhere"}})
		if err := c.Ready(testkit.Within(t, 50*time.Millisecond)); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("Ready alone of three: %v", err)
		}
		testkit.Closed(t, c)
	})
	leavesNothing(t, "twice and at once", func() {
		c := open(holdfast.Config{})
		_ = c.Ready(testkit.Within(t, 5*time.Second))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { testkit.Closed(t, c) })
		}
		all.Wait()
		testkit.Closed(t, c)
	})
	leavesNothing(t, "while the token floor is asked for", func() {
		c := open(holdfast.Config{TokenFloor: func(ctx context.Context) (holdfast.Token, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}})
		_ = c.Ready(testkit.Within(t, 300*time.Millisecond))
		testkit.Closed(t, c)
	})
}

func TestCloseEndsEveryLeaseAndEveryWaitingCall(t *testing.T) {
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	const leases, waiters = 2000, 5000
	leavesNothing(t, "thousands of leases and waiters", func() {
		c := testkit.Single(t)
		held := make([]*holdfast.Lease, leases)
		var all sync.WaitGroup
		for i := range held {
			all.Go(func() {
				opts := []holdfast.Option{holdfast.WithTTL(time.Duration(1+i%7) * time.Minute)}
				if i%10 == 0 {
					opts = append(opts, holdfast.WithManualRenew())
				}
				held[i] = testkit.Acquire(t, c, fmt.Sprint("held/", i), opts...)
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
		testkit.Eventually(t, c, "all to wait", func() bool { return c.Status().Waiting == waiters })
		testkit.Closed(t, c)
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
	if !processtest.Alone(t) {
		return
	}
	warm(t)
	for round := range 5 {
		leavesNothing(t, "busy", func() {
			c := testkit.Single(t)
			l := testkit.Acquire(t, c, "renewed")
			var all sync.WaitGroup
			for name, call := range testkit.CallsOf(c, l) {
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
			testkit.Eventually(t, c, "work", func() bool { return c.Status().Applied > uint64(200+100*round) })
			testkit.Closed(t, c)
			all.Wait()
		})
	}
}
