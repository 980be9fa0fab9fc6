package contract_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// Three become two and one: by Leave or by RemoveNode, never by time.
func TestADeadNodeIsRemovedByOrderAndTheFleetShrinksToOne(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Config: func(_ int, c *holdfast.Config) { c.ReplaceAfter = time.Hour }}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		dead, operator := others(s, leader)[0], others(s, leader)[1]
		id := dead.Cluster().ID()
		get(t, dead.Cluster(), "held", holdfast.WithTTL(5*time.Minute))
		dead.Kill()
		time.Sleep(2 * time.Second)
		began := time.Now()
		if err := operator.Cluster().RemoveNode(until(time.Minute), id, "its machine burnt"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the removal of a dead node took %v", took)
		}
		if _, err := operator.Cluster().TryAcquire(until(time.Minute), "held"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("the removal ended a session of the node: %v", err)
		}
		if err := leader.Cluster().RemoveNode(until(time.Minute), id, "again"); err != nil {
			t.Errorf("a second call: %v", err)
		}
		for _, n := range []*sim.Node{leader, operator} {
			settles(t, 10*time.Second, "group of two", func() bool { return len(n.Cluster().Status().Voters) == 2 })
		}
		if err := leader.Cluster().Leave(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		settles(t, 10*time.Second, "group of one", func() bool { return len(operator.Cluster().Status().Voters) == 1 })
		serves(t, until(10*time.Second), operator.Cluster())
		operator.Kill()
		operator.Open()
		operator.Ready()
		dead.Open() // it asks for a new replica
		dead.Ready()
	})
}

// Of three without another that could vote, one that stays away votes on for ever: two of two would need both.
func TestThreeDoNotBecomeTwoByTime(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) { // ReplaceAfter is half a minute
		leader := s.RaftLeader()
		dead, third := others(s, leader)[0], others(s, leader)[1]
		id := dead.Cluster().ID()
		dead.Kill()
		for range 12 {
			time.Sleep(10 * time.Second)
			for _, n := range []*sim.Node{leader, third} {
				st := n.Cluster().Status()
				if len(st.Voters) != 3 || len(st.Standbys) != 0 || !slices.ContainsFunc(st.Voters, func(v holdfast.Replica) bool { return v.ID == id }) {
					t.Fatalf("node %d: the voters are %+v", n.Index(), st.Voters)
				}
				serves(t, until(10*time.Second), n.Cluster())
			}
		}
		if plan := leader.Cluster().Status().Plan; !strings.Contains(plan, id) {
			t.Errorf("the raft leader says %q, and nothing of the dead voter", plan)
		}
		dead.Open()
		dead.Ready()
		if now := dead.Cluster().ID(); now != id {
			t.Errorf("it came back as %s", now)
		}
	})
}

func TestANodeThatRaftHearsOrIsTheLastVoterIsNotRemovedByOrder(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4}, func(s *sim.Sim) {
		operator := follower(s, holdfast.RoleVoter).Cluster()
		for name, n := range map[string]*sim.Node{
			"the raft leader": s.RaftLeader(), "a voter": follower(s, holdfast.RoleVoter), "a standby": follower(s, holdfast.RoleStandby),
		} {
			err := operator.RemoveNode(until(time.Minute), n.Cluster().ID(), "why not")
			var kept *holdfast.RemoveError
			if !errors.Is(err, holdfast.ErrNotRemoved) || !errors.As(err, &kept) || kept.Last || kept.NodeID != n.Cluster().ID() {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"an unknown node": operator.RemoveNode(until(time.Minute), uuid.NewString(), "why"),
			"no id":           operator.RemoveNode(until(time.Minute), "node1", "why"),
			"no reason":       operator.RemoveNode(until(time.Minute), operator.ID(), ""),
		} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	c := single(t)
	var kept *holdfast.RemoveError
	if err := c.RemoveNode(within(t, time.Minute), c.ID(), "why"); !errors.As(err, &kept) || !kept.Last {
		t.Errorf("the last voter: %v", err)
	}
}

// Without a majority nothing can be removed, and the call says that it does not know.
func TestWithoutAMajorityAnOrderHasNoOutcome(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		left := s.RaftLeader().Cluster()
		for _, n := range others(s, s.RaftLeader()) {
			n.Isolate()
		}
		id := s.Node(0).Cluster().ID()
		if id == left.ID() {
			id = s.Node(1).Cluster().ID()
		}
		time.Sleep(5 * time.Second)
		err := left.RemoveNode(until(5*time.Second), id, "gone")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("without a majority: %v", err)
		}
	})
}
