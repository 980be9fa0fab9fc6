package virtual_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// steady holds a lock of its own all the while, as a healthy holder beside a crowd does, until the
// func that is returned is called: then it must have been valid throughout.
func steady(t *testing.T, c *holdfast.Cluster) (end func()) {
	t.Helper()
	l := testkit.Get(t, c, "steady", holdfast.WithTTL(2*time.Second))
	return func() {
		t.Helper()
		if !l.Valid() || l.Err() != nil {
			t.Errorf("a healthy holder beside the crowd: valid %v, %v", l.Valid(), l.Err())
		}
	}
}

// waiting lets so many callers wait for a lock, each under the context that it is given, and
// returns when all do.
func waiting(t *testing.T, c *holdfast.Cluster, name string, n int, ctx func(i int) context.Context, done func(i int, l *holdfast.Lease, err error)) *sync.WaitGroup {
	t.Helper()
	all := new(sync.WaitGroup)
	for i := range n {
		all.Go(func() {
			l, err := c.Acquire(ctx(i), name)
			done(i, l, err)
		})
	}
	allWait(t, c, name, n)
	return all
}

// allWait returns when so many callers wait for a lock.
func allWait(t *testing.T, c *holdfast.Cluster, name string, n int) {
	t.Helper()
	waiters := 0
	for range 100 {
		time.Sleep(time.Second) // virtual
		info, err := c.Inspect(testkit.Until(time.Minute), name)
		if waiters = len(info.Waiters); err == nil && waiters == n {
			return
		}
	}
	t.Fatalf("%d of %d wait", waiters, n)
}

func TestOfTenThousandWaitersEachIsServedOrCancelledThoughTheRaftLeaderDiesTwice(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("ten thousand callers")
	}
	sim.Run(t, sim.Options{Nodes: 4, Config: func(_ int, c *holdfast.Config) { c.Voters = 3 }}, func(s *sim.Sim) {
		const n = 10_000
		var caller *sim.Node // it is never raft leader
		testkit.Settles(t, 100*time.Second, "standby", func() bool {
			caller = testkit.Follower(s, holdfast.RoleStandby)
			return caller != nil
		})
		c := caller.Cluster()
		healthy := steady(t, c)
		l := testkit.Get(t, c, "queue")
		ctx, cancel := context.WithCancel(testkit.Until(10 * time.Minute))
		defer cancel()
		var served, cancelled atomic.Int32
		all := waiting(t, c, "queue", n, func(i int) context.Context {
			if i%2 == 0 {
				return ctx
			}
			return testkit.Until(10 * time.Minute)
		}, func(i int, l *holdfast.Lease, err error) {
			switch {
			case err == nil && i%2 == 1:
				served.Add(1)
				if err := l.Release(testkit.Until(time.Minute)); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			case i%2 == 0 && errors.Is(err, context.Canceled):
				cancelled.Add(1)
			default:
				t.Errorf("caller %d: %v", i, err)
			}
		})
		for round := range 2 {
			leader := s.RaftLeader()
			leader.Kill()
			if round == 0 {
				cancel()
			} else if err := l.Release(testkit.Until(time.Minute)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			leader.Open()
			leader.Ready()
		}
		all.Wait()
		if served.Load() != n/2 || cancelled.Load() != n/2 {
			t.Errorf("%d served, %d cancelled", served.Load(), cancelled.Load())
		}
		healthy()
		free(t, c, "queue")
	})
}

// Each call that ended read the whole queue: 8,000 deadlines at once took six seconds of processor
// time, and the healthy holder on that node lost its lease.
func TestAHundredThousandContextsThatEndAtOnceAreWithdrawn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred thousand callers")
	}
	sim.Run(t, sim.Options{}, func(s *sim.Sim) {
		const n = 100_000
		c := s.Node(0).Cluster()
		healthy := steady(t, c)
		l := testkit.Get(t, c, "queue")
		ctx, cancel := context.WithCancel(testkit.Until(time.Hour))
		defer cancel()
		var all sync.WaitGroup
		for wave := range 4 { // as admission lets a node have 65,536 calls at most before they wait in the queue
			for range n / 4 {
				all.Go(func() {
					if _, err := c.Acquire(ctx, "queue"); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			allWait(t, c, "queue", (wave+1)*n/4)
		}
		began := time.Now()
		cancel()
		all.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the calls were answered after %v", took)
		}
		next := testkit.Get(t, c, "another")
		if err := l.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := next.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		free(t, c, "queue")
		healthy()
	})
}

// free waits until nobody has a lock or waits for it.
func free(t *testing.T, c *holdfast.Cluster, name string) {
	t.Helper()
	var info holdfast.LockInfo
	var err error
	for range 100 {
		if info, err = c.Inspect(testkit.Until(time.Minute), name); err == nil && len(info.Holders)+len(info.Waiters) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // virtual
	}
	t.Errorf("%d hold %s, %d wait: %v", len(info.Holders), name, len(info.Waiters), err)
}
