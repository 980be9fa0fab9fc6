package virtual_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// The states of life.go, and a power cut in each: between the news of the removal and the service
// of the next replica there are some virtual milliseconds, and the cut comes at each.
func TestThePowerFailsWhileANodeBeginsItsNextLife(t *testing.T) {
	t.Parallel()
	step := 1
	if testing.Short() {
		step = 4
	}
	sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon}, func(s *sim.Sim) {
		n := testkit.Follower(s, holdfast.RoleStandby)
		other := testkit.Others(s, n)[0]
		id := n.Cluster().ID()
		for k := 0; k < 12; k += step {
			cutOff(t, n, other, id)
			n.SlowDisk(50 * time.Millisecond)
			n.Rejoin()
			c := n.Cluster()
			testkit.Settles(t, time.Minute, "news", func() bool { return c.Status().Role == holdfast.RoleClient })
			time.Sleep(time.Duration(k) * 60 * time.Millisecond)
			n.Crash()
			n.SlowDisk(0)
			n.Open()
			isBack(t, n, other, id)
		}
	})
}

// A node that was taken in, and heard nothing of it for so long that it was removed again, asks
// with an id that never comes back. It is told so.
func TestANodeThatAsksForAReplicaThatWasRemovedGetsAnother(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon}, func(s *sim.Sim) {
		n := testkit.Follower(s, holdfast.RoleStandby)
		other := testkit.Others(s, n)[0]
		id := n.Cluster().ID()
		follows := func() bool { return slices.Contains(testkit.IDs(other.Cluster().Status().Standbys), id) }
		n.Isolate()
		testkit.Settles(t, 2*time.Minute, "removal", func() bool { return !follows() })
		// By gossip it hears that it is out, and asks: by Raft nobody hears it, so that it does not
		// learn that it is in.
		n.Rejoin()
		n.CutRaft()
		testkit.Settles(t, time.Minute, "second life", follows)
		n.Kill()
		testkit.Settles(t, 2*time.Minute, "second removal", func() bool { return !follows() })
		n.Rejoin()
		n.Open()
		isBack(t, n, other, id)
	})
}

// As above, but by the time it comes back another node has its place, and the group is full: nobody asked the
// engine for its replica, so that nothing told it that this one is out. It waited for good, and served nobody.
func TestANodeWhoseReplicaWasRemovedIsAClientOfAGroupThatIsFull(t *testing.T) {
	t.Parallel()
	config := func(i int, cfg *holdfast.Config) {
		replacedSoon(i, cfg)
		cfg.Replicas = 5
	}
	sim.Run(t, sim.Options{Nodes: 6, Late: true, Config: config}, func(s *sim.Sim) {
		fleet, last := s.Nodes()[:5], s.Node(5)
		for _, n := range fleet {
			n.Open()
		}
		for _, n := range fleet {
			n.Ready()
		}
		n, other := fleet[0], fleet[1]
		for _, one := range fleet {
			if one.Cluster().Status().Role == holdfast.RoleStandby {
				n = one
			} else {
				other = one
			}
		}
		id := n.Cluster().ID()
		follows := func() bool { return slices.Contains(testkit.IDs(other.Cluster().Status().Standbys), id) }
		cutOff(t, n, other, id)
		n.Rejoin()
		n.CutRaft()
		testkit.Settles(t, time.Minute, "second life", follows)
		time.Sleep(time.Second) // it is told so, and starts its replica
		n.Kill()
		testkit.Settles(t, 2*time.Minute, "second removal", func() bool { return !follows() })
		last.Open()
		last.Ready()
		testkit.Settles(t, time.Minute, "a full group", func() bool { return len(other.Cluster().Status().Standbys) == 2 })
		n.Rejoin()
		n.Open()
		testkit.Settles(t, time.Minute, "being a client", func() bool { return n.Cluster().Ready(testkit.Until(time.Second)) == nil })
		if c := n.Cluster(); c.ID() != id || c.Status().Role != holdfast.RoleClient {
			t.Errorf("it is %s: %+v", c.ID(), c.Status())
		}
		last.Kill()
		testkit.Settles(t, 2*time.Minute, "another replica", follows)
		isBack(t, n, other, id)
	})
}

// A node that comes back late hears what was said to its former life: the raft leader says it twice a
// second, and messages are delayed.
func TestALateRemovalChangesNothing(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon}, func(s *sim.Sim) {
		n := testkit.Follower(s, holdfast.RoleStandby)
		other := testkit.Others(s, n)[0]
		c, id := n.Cluster(), n.Cluster().ID()
		l := testkit.Get(t, c, "lock", holdfast.WithTTL(time.Hour))
		cutOff(t, n, other, id)
		n.Rejoin()
		isBack(t, n, other, id)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if st := c.Status(); st.Role != holdfast.RoleStandby || !st.Ready {
				t.Fatalf("it is out again: %+v", st)
			}
		}
		if !l.Valid() {
			t.Error(l.Err())
		}
	})
}

// A copy of the directory from a former life, opened while the node itself is there, is a later
// process of the node: who knows of the later life refuses the copy, and who does not takes the
// node for the former process. Two never serve.
func TestACopyFromAFormerLifeDoesNotServeBesideItsNode(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		sim.Run(t, sim.Options{Nodes: 5, Late: true, Config: replacedSoon, Seed: seed + 1}, func(s *sim.Sim) {
			for i := range 4 {
				s.Node(i).Open()
			}
			for i := range 4 {
				s.Node(i).Ready()
			}
			n := testkit.Follower(s, holdfast.RoleStandby)
			other := testkit.Others(s, n, s.Node(4))[0]
			c, id := n.Cluster(), n.Cluster().ID()
			if err := s.Node(4).CopyDisk(n); err != nil {
				t.Fatal(err)
			}
			cutOff(t, n, other, id)
			n.Rejoin()
			isBack(t, n, other, id)
			l := testkit.Get(t, c, "lock", holdfast.WithTTL(time.Hour))
			copied := s.Node(4).Open()
			testkit.Settles(t, 2*time.Minute, "end of one", func() bool { return copied.Err() != nil || c.Err() != nil })
			if l.Valid() != (c.Err() == nil) {
				t.Errorf("the node: %v, its lease: %v", c.Err(), l.Err())
			}
			if _, err := copied.TryAcquire(testkit.Until(3*time.Minute), "lock"); err == nil { // nothing proves that the former process is dead
				t.Error("the copy was granted what its node holds")
			}
			t.Logf("the node: %v; the copy: %v", c.Err() == nil, copied.Err() == nil)
			for _, one := range []*holdfast.Cluster{c, copied} {
				if one.Err() == nil {
					if err := one.Ready(testkit.Until(5 * time.Minute)); err != nil {
						t.Errorf("who goes on does not serve: %v", err)
					}
				}
			}
		})
	}
}

// A watch sees each event once, though the next replica applies the log again, from its beginning
// or from a snapshot.
func TestAWatchSeesNothingTwiceWhenItsNodeComesBack(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{"by the log": 0, "by snapshots": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon, SnapshotEvery: every}, func(s *sim.Sim) {
				n := testkit.Follower(s, holdfast.RoleStandby)
				other := testkit.Others(s, n)[0]
				c, id := n.Cluster(), n.Cluster().ID()
				ctx := testkit.Until(time.Hour)
				var last uint64
				var seen []string
				events := c.Watch(ctx, "w") // from now on
				done := make(chan struct{})
				go func() {
					defer close(done)
					for e, err := range events {
						if err != nil {
							return
						}
						if e.Index < last {
							t.Errorf("event %d after %d: %v", e.Index, last, e.Kind)
						}
						last = e.Index
						if e.Kind == holdfast.EventGranted {
							seen = append(seen, e.Name)
						}
						if e.Name == "w.last" {
							return
						}
					}
				}()
				write := func(name string) {
					t.Helper()
					if err := testkit.Get(t, other.Cluster(), name).Release(testkit.Until(time.Minute)); err != nil {
						t.Error(err)
					}
				}
				for range 30 { // a replica that lags may get a snapshot instead: then the watch is told that it missed some
					write("w.first")
					written := other.Cluster().Status().Applied
					testkit.Settles(t, time.Minute, "its replica", func() bool { return c.Status().Applied >= written })
				}
				cutOff(t, n, other, id)
				write("w.missed")
				n.Rejoin()
				isBack(t, n, other, id)
				write("w.last")
				<-done
				count := 0
				for _, name := range seen {
					if name == "w.first" {
						count++
					}
				}
				if count != 30 {
					t.Errorf("of 30 grants %d were seen", count)
				}
			})
		})
	}
}

// What a node waits for after its return is withdrawn, too, when it is removed again: a queue would
// else wait for its TTL.
func TestWhatANodeThatCameBackWaitsForIsWithdrawnWhenItIsRemovedAgain(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon}, func(s *sim.Sim) {
		n := testkit.Follower(s, holdfast.RoleStandby)
		other := testkit.Others(s, n)[0]
		c, id := n.Cluster(), n.Cluster().ID()
		l := testkit.Get(t, c, "its own", holdfast.WithTTL(time.Hour))
		held := testkit.Get(t, other.Cluster(), "lock")
		granted := make(chan error, 2)
		for round := range 2 {
			go func() {
				l, err := c.Acquire(testkit.Until(time.Hour), "lock", holdfast.WithTTL(time.Hour))
				if err == nil {
					err = l.Release(testkit.Until(time.Minute))
				}
				granted <- err
			}()
			testkit.Settles(t, 10*time.Second, "queue", func() bool {
				info, err := other.Cluster().Inspect(testkit.Until(time.Minute), "lock")
				return err == nil && len(info.Waiters) == 1+round
			})
			cutOff(t, n, other, id)
			testkit.Settles(t, 10*time.Second, "withdrawal", func() bool {
				info, err := other.Cluster().Inspect(testkit.Until(time.Minute), "lock")
				return err == nil && len(info.Waiters) == 0
			})
			n.Rejoin()
			isBack(t, n, other, id)
			testkit.Settles(t, 10*time.Second, "asking again", func() bool { return c.Status().Waiting == 1+round })
		}
		if err := held.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-granted; err != nil {
				t.Error(err)
			}
		}
		if !l.Valid() {
			t.Error(l.Err())
		}
	})
}

// An operator frees what a node holds that is out of sight. If it lives, it hears so when it is
// back, and goes on.
func TestANodeThatWasRevokedWhileItWasAwayComesBackWithoutItsLeases(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{"by the log": 0, "by a snapshot": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon, SnapshotEvery: every}, func(s *sim.Sim) {
				n := testkit.Follower(s, holdfast.RoleStandby)
				other := testkit.Others(s, n)[0]
				c, id := n.Cluster(), n.Cluster().ID()
				l := testkit.Get(t, c, "lock", holdfast.WithTTL(time.Hour))
				cutOff(t, n, other, id)
				if err := other.Cluster().RevokeNode(testkit.Until(time.Minute), id, "it burns"); err != nil {
					t.Fatal(err)
				}
				for i := range 40 {
					name := fmt.Sprint("lock", i/10) // what a lock's past tells is the last 16 grants
					if err := testkit.Get(t, other.Cluster(), strings.TrimSuffix(name, "0")).Release(testkit.Until(time.Minute)); err != nil {
						t.Error(err)
					}
				}
				n.Rejoin()
				isBack(t, n, other, id)
				testkit.Settles(t, time.Second, "news", func() bool { return !l.Valid() })
				if !errors.Is(l.Err(), holdfast.ErrForced) {
					t.Errorf("it was told %v", l.Err())
				}
				testkit.Get(t, c, "lock")
			})
		})
	}
}
