package virtual_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// A node that the group has removed and replaced while it heard nothing was a new node at its next
// Open: its process had ended all leases, also those whose TTL ran for minutes, and had to be
// started again by somebody.

// isOut waits until the group has removed the node's replica and three others vote. (Whom gossip
// sees may follow again.)
func isOut(t *testing.T, other *sim.Node, id string) {
	t.Helper()
	testkit.Settles(t, 2*time.Minute, "replacement", func() bool { return hasReplaced(other.Cluster(), id) })
}

// replacedSoon is of fleets that give a silent node up after two seconds.
func replacedSoon(_ int, cfg *holdfast.Config) {
	cfg.ReplaceAfter, cfg.MaxTTL = 2*time.Second, holdfast.TTLMax
}

// cutOff isolates a standby until its group has removed its replica.
func cutOff(t *testing.T, n, other *sim.Node, id string) {
	t.Helper()
	n.Isolate()
	testkit.Settles(t, 2*time.Minute, "removal", func() bool { return !slices.Contains(testkit.IDs(other.Cluster().Status().Standbys), id) })
}

// isBack waits until the node is a replica of the group again, under its id, and serves.
func isBack(t *testing.T, n, other *sim.Node, id string) {
	t.Helper()
	testkit.Settles(t, 30*time.Second, "coming back", func() bool {
		return slices.Contains(testkit.IDs(other.Cluster().Status().Standbys), id) && n.Cluster().Ready(testkit.Until(time.Second)) == nil
	})
	if c := n.Cluster(); c.ID() != id || c.Err() != nil || c.Status().Role != holdfast.RoleStandby {
		t.Errorf("it is %s, %v: %+v", c.ID(), c.Err(), c.Status())
	}
}

func TestAVoterThatWasCutOffAndReplacedComesBackWithItsLease(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string][2]func(*sim.Node){
		"cut off": {(*sim.Node).Isolate, (*sim.Node).Rejoin},
		"paused":  {(*sim.Node).Pause, (*sim.Node).Resume},
		"no Raft": {(*sim.Node).CutRaft, (*sim.Node).Rejoin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fiveWithASpare(t, func(s *sim.Sim) {
				n, other := voterAndOther(s)
				c, id := n.Cluster(), n.Cluster().ID()
				l := testkit.Get(t, c, "lock", holdfast.WithTTL(5*time.Minute))
				silence[0](n)
				time.Sleep(2 * time.Minute)
				isOut(t, other, id)
				if h, err := other.Cluster().TryAcquire(testkit.Until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("the lock of a node that was removed was granted: %v, %v", h, err)
				}
				silence[1](n)
				isBack(t, n, other, id)
				if n.Cluster() != c || !l.Valid() || l.Err() != nil {
					t.Fatalf("its lease: %v", l.Err())
				}
				time.Sleep(4 * time.Minute) // beyond the TTL: it was renewed through the next replica
				if !l.Valid() || l.Err() != nil {
					t.Errorf("its lease was not renewed: %v", l.Err())
				}
				if err := l.Set(testkit.Until(time.Minute), []byte("still mine")); err != nil {
					t.Error(err)
				}
				if err := l.Release(testkit.Until(time.Minute)); err != nil {
					t.Error(err)
				}
				// It takes a voter's place when that is free.
				for _, o := range s.Nodes() {
					if st := o.Cluster().Status(); o != n && o != other && st.Role == holdfast.RoleVoter {
						o.Kill()
						break
					}
				}
				testkit.Settles(t, 2*time.Minute, "voting again", func() bool { return len(votersOf(other)) == 3 && everybodyLives(s, votersOf(other)) })
			})
		})
	}
}

func votersOf(n *sim.Node) []string { return testkit.IDs(n.Cluster().Status().Voters) }

// everybodyLives reports whether each of the nodes runs.
func everybodyLives(s *sim.Sim, ids []string) bool {
	for _, n := range s.Nodes() {
		if c := n.Cluster(); c != nil {
			ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == c.ID() })
		}
	}
	return len(ids) == 0
}

// A call that waits when its node is cut off waits on, and has the lock when its turn comes.
func TestACallThatWaitsGoesOnWhenItsNodeIsAReplicaAgain(t *testing.T) {
	t.Parallel()
	fiveWithASpare(t, func(s *sim.Sim) {
		n, other := voterAndOther(s)
		c, id := n.Cluster(), n.Cluster().ID()
		held := testkit.Get(t, other.Cluster(), "lock")
		type answer struct {
			lease *holdfast.Lease
			err   error
		}
		answers := make(chan answer, 2)
		acquire := func(name string) {
			l, err := c.Acquire(testkit.Until(time.Hour), name, holdfast.WithTTL(10*time.Minute))
			answers <- answer{l, err}
		}
		go acquire("lock")
		testkit.Settles(t, 10*time.Second, "queue", func() bool { return c.Status().Waiting == 1 })
		n.Isolate()
		go acquire("asked while it was cut off")
		isOut(t, other, id)
		time.Sleep(time.Minute)
		n.Rejoin()
		isBack(t, n, other, id)
		if err := held.Release(testkit.Until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if a := <-answers; a.err != nil || !a.lease.Valid() {
				t.Errorf("it was answered %v", a.err)
			}
		}
		if c.Err() != nil {
			t.Error(c.Err())
		}
	})
}

// The process ends and starts again while it is cut off, or is started only when it was removed
// long ago.
func TestANodeThatWasRemovedWhileItWasDownIsTheSameNodeAgain(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"started while it is cut off": true, "started afterwards": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fiveWithASpare(t, func(s *sim.Sim) {
				n, other := voterAndOther(s)
				id := n.Cluster().ID()
				l := testkit.Get(t, n.Cluster(), "lock", holdfast.WithTTL(10*time.Minute))
				n.Isolate()
				n.Kill()
				if before {
					time.Sleep(10 * time.Second)
					n.Open()
				}
				isOut(t, other, id)
				time.Sleep(time.Minute)
				n.Rejoin()
				if !before {
					n.Open()
				}
				isBack(t, n, other, id)
				// The later process proves that the former one is dead.
				next := testkit.Get(t, n.Cluster(), "lock")
				if next.Token() <= l.Token() {
					t.Errorf("token %d after %d", next.Token(), l.Token())
				}
				n.Restart()
				n.Ready()
				if got := n.Cluster().ID(); got != id {
					t.Errorf("after another start it is %s", got)
				}
			})
		})
	}
}

// Nothing of a life may stand in the way of the next, nor add up.
func TestANodeComesBackAsOftenAsItIsRemoved(t *testing.T) {
	t.Parallel()
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	sim.Run(t, sim.Options{Nodes: 4, Config: replacedSoon}, func(s *sim.Sim) {
		n := testkit.Follower(s, holdfast.RoleStandby)
		other := testkit.Others(s, n)[0]
		c, id := n.Cluster(), n.Cluster().ID()
		l := testkit.Get(t, c, "lock", holdfast.WithTTL(time.Hour))
		for range rounds {
			cutOff(t, n, other, id)
			n.Rejoin()
			isBack(t, n, other, id)
			if n.Cluster() != c || !l.Valid() {
				t.Fatalf("its lease: %v", l.Err())
			}
		}
		if err := l.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		n.Restart()
		n.Ready()
		if got := n.Cluster().ID(); got != id {
			t.Errorf("after another start it is %s", got)
		}
	})
}

func TestANodeWithoutADiskThatWasReplacedComesBackWithItsLease(t *testing.T) {
	t.Parallel()
	inYard(t, func(y *yard) {
		fleet := y.openAll(4)
		i := slices.IndexFunc(fleet, func(c *holdfast.Cluster) bool {
			st := c.Status()
			return st.Role == holdfast.RoleVoter && st.RaftLeader != st.ID
		})
		c, other := fleet[i], fleet[(i+1)%len(fleet)]
		id := c.ID()
		l := testkit.Get(t, c, "lock", holdfast.WithTTL(5*time.Minute))
		y.net.Isolate(c.Addr())
		y.net.Break(c.Addr(), "*")
		testkit.Settles(t, 2*time.Minute, "replacement", func() bool { return hasReplaced(other, id) })
		time.Sleep(time.Minute)
		y.net.Heal(c.Addr())
		testkit.Settles(t, time.Minute, "coming back", func() bool {
			return slices.Contains(testkit.IDs(other.Status().Standbys), id) && c.Ready(testkit.Until(time.Second)) == nil
		})
		time.Sleep(4 * time.Minute)
		if c.Err() != nil || !l.Valid() {
			t.Errorf("the node: %v; its lease: %v", c.Err(), l.Err())
		}
	})
}
