package virtual_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

const (
	// placeBack is how long a node that lives may be without service because of a copy of its
	// directory that is refused.
	placeBack = 5 * time.Second
	// copyUnseen is when gossip has noticed that the copy has gone. Of many it probes one a second.
	copyUnseen = time.Minute
)

// copied is a node that lives, of whose disk there is an older copy.
type copied struct {
	s      *sim.Sim
	node   *sim.Node
	backup *sim.Backup
	lease  *holdfast.Lease
}

// pick finds a node with a role, copies its disk, and lets the group go on: what the node has
// promised since, the copy does not know.
func pick(t *testing.T, s *sim.Sim, role string) *copied {
	t.Helper()
	is := func(n *sim.Node) bool {
		st := n.Cluster().Status()
		switch role {
		case "raft leader":
			return st.RaftLeader == st.ID
		case "voter":
			return st.Role == holdfast.RoleVoter && st.RaftLeader != st.ID
		}
		return st.Role == holdfast.RoleStandby
	}
	x := &copied{s: s}
	for _, n := range s.Nodes()[:4] {
		if x.node == nil && is(n) {
			x.node = n
		}
	}
	x.lease = testkit.Get(t, x.node.Cluster(), "held", holdfast.WithTTL(endTTL))
	x.backup = x.node.Backup()
	for range 3 {
		if err := testkit.Get(t, x.node.Cluster(), "passing").Release(testkit.Until(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // virtual: everybody has heard of it
	return x
}

// refused opens the copy on the spare machine and waits until it is refused, for patience at most.
func (x *copied) refused(t *testing.T, patience time.Duration) {
	t.Helper()
	spare := x.s.Node(4)
	spare.Restore(x.backup)
	later, err := spare.TryOpen()
	if err == nil {
		select {
		case <-later.Done():
			err = later.Err()
			time.Sleep(time.Millisecond) // virtual: what it has written arrives, though it is killed; the simulator drops it
		case <-time.After(patience):
			return
		}
	}
	if !errors.Is(err, holdfast.ErrIncompatible) {
		t.Errorf("the copy ended with %v", err)
	}
}

// serves wants the node in service within a time, at its own address in the eyes of all, and its
// lease untouched.
func (x *copied) serves(t *testing.T, within time.Duration) {
	t.Helper()
	c := x.node.Cluster()
	testkit.Settles(t, within, "service of the node that was copied", func() bool {
		if c.Err() != nil {
			t.Fatalf("the node that was copied has ended: %v", c.Err())
		}
		l, err := c.TryAcquire(testkit.Until(time.Second), "passing")
		return err == nil && l.Release(testkit.Until(time.Second)) == nil && c.Ready(testkit.Until(time.Second)) == nil
	})
	testkit.Settles(t, copyUnseen, "the node at its own address", func() bool {
		for _, n := range x.s.Nodes()[:4] {
			for _, m := range n.Cluster().Members() {
				if m.ID == c.ID() && (m.Addr != c.Addr() || m.State != holdfast.StateAlive) {
					return false
				}
			}
		}
		return true
	})
	if !x.lease.Valid() || x.lease.Err() != nil {
		t.Errorf("its lease: %v", x.lease.Err())
	}
}

// When a copy of the directory of a node that lived was opened and refused, gossip went on telling
// where the copy had been, and nobody reached the node: it neither served nor stopped.
func TestACopyThatIsRefusedGivesTheNodeItsPlaceBack(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"raft leader", "voter", "standby"} {
		t.Run("of the "+role, func(t *testing.T) {
			t.Parallel()
			fiveWithASpare(t, func(s *sim.Sim) {
				x := pick(t, s, role)
				x.refused(t, 5*time.Second)
				s.Node(4).Kill() // it says no good-bye
				x.serves(t, placeBack)
				for _, n := range testkit.Others(s, s.Node(4)) { // the next raft leader must hear it, too
					n.CutRaft()
					time.Sleep(2 * time.Second) // virtual
					n.Rejoin()
					x.serves(t, placeBack)
				}
			})
		})
	}
}

// Nobody but the raft leader refuses the copy of a standby. It hears that when its connections to
// the others, which have admitted it, are closed: it greets anew every two seconds, for one. It
// took itself back on those alone that were open, and the node that lives was ended as soon as
// another one was raft leader.
func TestACopyThatIsRefusedWhenItHasHungUpOnTheOthersGivesTheNodeItsPlaceBack(t *testing.T) {
	t.Parallel()
	fiveWithASpare(t, func(s *sim.Sim) {
		x := pick(t, s, "standby")
		leader, spare := s.RaftLeader(), s.Node(4)
		s.Cut(spare.Index(), leader.Index())
		spare.Restore(x.backup)
		copied := spare.Open()
		time.Sleep(13500 * time.Millisecond) // virtual: the others have admitted it, and those connections are closed
		spare.Rejoin()
		<-copied.Done()
		if !errors.Is(copied.Err(), holdfast.ErrIncompatible) {
			t.Errorf("the copy ended with %v", copied.Err())
		}
		spare.Kill()
		for _, n := range testkit.Others(s, spare) { // the next raft leader must hear it, too
			n.CutRaft()
			time.Sleep(2 * time.Second) // virtual
			n.Rejoin()
			x.serves(t, placeBack)
		}
	})
}

// A supervisor starts the copy again and again.
func TestACopyThatIsStartedOverAndOverTakesNothingFromTheNode(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"raft leader", "voter", "standby"} {
		t.Run("of the "+role, func(t *testing.T) {
			t.Parallel()
			fiveWithASpare(t, func(s *sim.Sim) {
				x := pick(t, s, role)
				for range 20 {
					x.refused(t, 500*time.Millisecond)
					s.Node(4).Kill()
					if l, err := x.node.Cluster().TryAcquire(testkit.Until(2*time.Second), "passing"); err != nil || l.Release(testkit.Until(time.Second)) != nil {
						t.Errorf("beside the copy: %v", err)
					}
				}
				x.serves(t, placeBack)
			})
		})
	}
}

// The node is out of sight while its copy is refused, and comes back.
func TestANodeThatWasAwayWhileItsCopyWasRefusedServesAgain(t *testing.T) {
	t.Parallel()
	away := map[string]struct{ goes, comes func(*sim.Node) }{
		"cut off": {(*sim.Node).Isolate, (*sim.Node).Rejoin},
		"stopped": {(*sim.Node).Pause, (*sim.Node).Resume},
	}
	for how, way := range away {
		for _, role := range []string{"raft leader", "voter"} {
			t.Run(how+", a "+role, func(t *testing.T) {
				t.Parallel()
				fiveWithASpare(t, func(s *sim.Sim) {
					x := pick(t, s, role)
					way.goes(x.node)
					x.refused(t, 20*time.Second)
					s.Node(4).Kill()
					way.comes(x.node)
					x.serves(t, placeBack)
				})
			})
		}
	}
}

// A copy of all that the node has promised cannot be told from the node that starts again. One of
// the two ends, and is told why; the other one serves, and is what the group knows as the node.
func TestOfANodeAndAFullCopyOfItOneEndsAndTheOtherServes(t *testing.T) {
	t.Parallel()
	nothing := func(*sim.Node) {}
	ways := map[string]struct{ goes, comes func(*sim.Node) }{
		"lives":      {nothing, nothing},
		"is cut off": {(*sim.Node).Isolate, (*sim.Node).Rejoin},
		"is stopped": {(*sim.Node).Pause, (*sim.Node).Resume},
	}
	for how, way := range ways {
		for _, role := range []string{"raft leader", "voter", "standby"} {
			t.Run("which "+how+", a "+role, func(t *testing.T) {
				t.Parallel()
				fiveWithASpare(t, func(s *sim.Sim) {
					x := pick(t, s, role)
					way.goes(x.node)
					s.Node(4).Restore(x.node.Backup())
					later := s.Node(4).Open()
					time.Sleep(5 * time.Second) // virtual
					way.comes(x.node)
					x.oneEnds(t, later)
				})
			})
		}
	}
}

// rivalsMax is how long two processes of one node may be there when nothing is between them.
const rivalsMax = 10 * time.Second

func (x *copied) oneEnds(t *testing.T, later *holdfast.Cluster) {
	t.Helper()
	former := x.node.Cluster()
	testkit.Settles(t, rivalsMax, "end of one of the two processes", func() bool { return former.Err() != nil || later.Err() != nil })
	stays, ended, at := former, later, x.s.Node(4)
	if former.Err() != nil {
		stays, ended, at = later, former, x.node
	}
	if !errors.Is(ended.Err(), holdfast.ErrIncompatible) {
		t.Errorf("one ended with %v", ended.Err())
	}
	at.Kill()
	testkit.Settles(t, placeBack, "service of the other one", func() bool { return stays.Ready(testkit.Until(time.Second)) == nil })
	if stays == former && !x.lease.Valid() {
		t.Errorf("its lease: %v", x.lease.Err())
	}
	if l, err := stays.TryAcquire(testkit.Until(time.Second), "passing"); err != nil || l.Release(testkit.Until(time.Second)) != nil {
		t.Errorf("the other one: %v", err)
	}
}
