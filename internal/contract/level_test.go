package contract_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
)

// levelPause is that of these fleets, whose nodes know levels 1 and 2 as the tests say.
const levelPause = 10 * time.Second

// mixed runs a fleet whose nodes know the levels in knows, from their next start on.
func mixed(t *testing.T, nodes int, knows map[int]uint64, f func(s *sim.Sim)) {
	t.Helper()
	leveled(t, nodes, time.Hour, knows, f)
}

// leveled is mixed with another Config.ReplaceAfter.
func leveled(t *testing.T, nodes int, replaceAfter time.Duration, knows map[int]uint64, f func(s *sim.Sim)) {
	t.Helper()
	config := func(_ int, cfg *holdfast.Config) { cfg.ReplaceAfter = replaceAfter }
	sim.Run(t, sim.Options{Nodes: nodes, Config: config, Env: func(i int, env *simenv.Env) {
		env.Level, env.LevelPause = max(knows[i], 1), levelPause
	}}, f)
}

// restart ends a node and starts it as a version that knows a level.
func restart(n *sim.Node, knows map[int]uint64, level uint64) {
	n.Close()
	knows[n.Index()] = level
	n.Open()
	n.Ready()
}

// hasReplica reports whether a node has a replica, as c has applied it.
func hasReplica(c *holdfast.Cluster, id string) bool {
	st := c.Status()
	is := func(r holdfast.Replica) bool { return r.ID == id }
	return slices.ContainsFunc(st.Voters, is) || slices.ContainsFunc(st.Standbys, is)
}

// holds checks that all nodes stay at a level for some pauses, and why the raft leader says so, unless
// it knows no higher one itself.
func holds(t *testing.T, s *sim.Sim, level uint64, why string) {
	t.Helper()
	time.Sleep(3 * levelPause)
	for _, n := range others(s) {
		if st := n.Cluster().Status(); st.Level != level {
			t.Errorf("node %d is at level %d, want %d", n.Index(), st.Level, level)
		}
	}
	st := s.RaftLeader().Cluster().Status()
	if older := st.LevelKnown == level; older && st.LevelWaits != "" || !older && !strings.Contains(st.LevelWaits, why) {
		t.Errorf("the raft leader waits for %q, want %q", st.LevelWaits, why)
	}
}

func rises(t *testing.T, s *sim.Sim, level uint64) {
	t.Helper()
	for _, n := range others(s) {
		settles(t, 2*levelPause, "higher level", func() bool { return n.Cluster().Status().Level == level })
	}
}

// A fleet goes to a new version node by node, back, and on again. The level rises when all know it,
// under a lease that lives on, and from then on nobody comes in who does not.
func TestTheLevelRisesWhenTheWholeFleetKnowsItAndAnOlderVersionIsThenRefused(t *testing.T) {
	t.Parallel()
	knows := make(map[int]uint64)
	mixed(t, 4, knows, func(s *sim.Sim) {
		holds(t, s, 1, "")
		for i, n := range s.Nodes() {
			restart(n, knows, 2)
			if i == 2 {
				holds(t, s, 1, "(node3) knows 1")
			}
		}
		restart(s.Node(1), knows, 1) // the new version is bad, at first sight
		holds(t, s, 1, "(node1) knows 1")
		restart(s.Node(1), knows, 2)

		holder, absent := follower(s, holdfast.RoleVoter), follower(s, holdfast.RoleStandby)
		lease := get(t, holder.Cluster(), "held", holdfast.WithTTL(5*time.Second))
		id := absent.Cluster().ID()
		absent.Kill()
		holds(t, s, 1, fmt.Sprintf("node %s is away", id))
		absent.Open()
		absent.Ready()
		rises(t, s, 2)
		time.Sleep(2 * time.Second) // each node records it, and gossip tells it
		if !lease.Valid() {
			t.Errorf("a lease ended as the level rose: %v", lease.Err())
		}
		for _, m := range holder.Cluster().Members() {
			if m.State == holdfast.StateAlive && m.Level != 2 {
				t.Errorf("%s knows level %d", m.Name, m.Level)
			}
		}

		absent.Close()
		knows[absent.Index()] = 1
		_, err := absent.TryOpen()
		refusedAsOlder(t, err, "its group was at level 2")
		absent.Wipe() // as a new node
		endsAsOlder(t, absent.Open())
		absent.Close()
		knows[absent.Index()] = 3
		absent.Open()
		absent.Ready()
		holds(t, s, 2, "")
		serves(t, until(10*time.Second), absent.Cluster())
		if !lease.Valid() {
			t.Errorf("the lease ended: %v", lease.Err())
		}
	})
}

// endsAsOlder checks that a node of an older version, which waits for a replica, is told that it is too old.
func endsAsOlder(t *testing.T, c *holdfast.Cluster) {
	t.Helper()
	if err := c.Ready(until(time.Minute)); !errors.Is(err, holdfast.ErrIncompatible) {
		t.Fatalf("Ready of an older version is %v; it waits for %q", err, c.Status().Waits)
	}
	<-c.Done() // Ready ends a moment before, and Err is nil until then
	refusedAsOlder(t, c.Err(), "the group is at level 2, which version ")
}

func refusedAsOlder(t *testing.T, err error, group string) {
	t.Helper()
	if err == nil || !errors.Is(err, holdfast.ErrIncompatible) || !strings.Contains(err.Error(), "of this node knows feature level 1") || !strings.Contains(err.Error(), group) {
		t.Errorf("an older version is told %v, want %q", err, group)
	}
}

// A node that never comes back would hold the others forever: the operator says so.
func TestANodeThatIsRemovedByOrderDoesNotHoldTheLevel(t *testing.T) {
	t.Parallel()
	knows := map[int]uint64{0: 2, 1: 2, 2: 2}
	mixed(t, 4, knows, func(s *sim.Sim) {
		older := s.Node(3)
		id := older.Cluster().ID()
		get(t, older.Cluster(), "held", holdfast.WithTTL(2*levelPause))
		older.Kill()
		holds(t, s, 1, "(node3) knows 1")
		if err := others(s)[0].Cluster().RemoveNode(until(time.Minute), id, "it does not come back"); err != nil {
			t.Fatal(err)
		}
		rises(t, s, 2)
	})
}

// A voter's host went down, a standby took its vote, and the others were updated meanwhile. The host came
// back as the former version: it waited for a replica for ever, and nobody said why it got none.
func TestAnOlderVoterWhoseVoteWasTakenAsItWasAwayIsToldThatItIsTooOld(t *testing.T) {
	t.Parallel()
	knows := make(map[int]uint64)
	leveled(t, 4, 5*time.Second, knows, func(s *sim.Sim) {
		holds(t, s, 1, "")
		away := follower(s, holdfast.RoleVoter)
		id := away.Cluster().ID()
		away.Kill()
		for _, n := range others(s) {
			settles(t, time.Minute, "vote that is taken", func() bool { return !hasReplica(n.Cluster(), id) })
		}
		time.Sleep(5 * time.Second) // its process counts no more
		for _, n := range others(s) {
			restart(n, knows, 2)
		}
		rises(t, s, 2)
		time.Sleep(2 * time.Second) // gossip tells it
		endsAsOlder(t, away.Open())
		away.Close()
		knows[away.Index()] = 2
		away.Open()
		away.Ready()
	})
}

// Members that have just been started tell no level yet, and a new node asks them to join: it looked at their
// level then, and never again.
func TestAnOlderNodeThatAsksToJoinBeforeTheLevelIsToldHearsOfItThereafter(t *testing.T) {
	t.Parallel()
	knows := map[int]uint64{0: 2, 1: 2, 2: 2, 3: 2}
	mixed(t, 4, knows, func(s *sim.Sim) {
		rises(t, s, 2)
		for _, n := range s.Nodes() {
			n.Kill()
		}
		older := s.Node(3)
		older.Wipe()
		knows[older.Index()] = 1
		s.AtOnce(s.Nodes(), func(n *sim.Node) { n.Open() })
		endsAsOlder(t, older.Cluster())
	})
}
