package contract_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
)

// A replica that does not vote is told of no election: it took a dead raft leader for one for 87 s.
// And nobody said who was missing.
func TestWithoutAMajorityEveryNodeSaysSoWithinTwoSecondsAndTellsWhoIsMissing(t *testing.T) {
	t.Parallel()
	told := &testlog.Lines{}
	sim.Run(t, sim.Options{Nodes: 5, Logger: told.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		time.Sleep(5 * time.Second)
		leader := s.RaftLeader()
		dead := []*sim.Node{leader}
		var rest []*sim.Node
		for _, n := range s.Nodes() {
			switch {
			case n == leader:
			case len(dead) < 2 && n.Cluster().Status().Role == holdfast.RoleVoter:
				dead = append(dead, n)
			default:
				rest = append(rest, n)
			}
		}
		missing := []string{dead[0].Cluster().ID(), dead[1].Cluster().ID()}
		for _, n := range dead {
			n.Kill()
		}
		time.Sleep(2 * time.Second)
		for _, n := range rest {
			if st := n.Cluster().Status(); st.Ready || st.RaftLeader != "" {
				t.Errorf("node %d, %v, after two seconds: ready %v, raft leader %q", n.Index(), st.Role, st.Ready, st.RaftLeader)
			}
		}
		time.Sleep(time.Minute)
		for _, n := range rest {
			list := told.Of("level=ERROR", "node="+n.Cluster().ID(), "hears no raft leader")
			if len(list) != 1 || !strings.Contains(list[0], missing[0]+" (") || !strings.Contains(list[0], missing[1]+" (") ||
				!strings.Contains(list[0], "docs/operations.md#when-the-majority-is-lost-for-good") {
				t.Errorf("node %d said %q of missing %v", n.Index(), list, missing)
			}
		}
		for _, n := range dead {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		time.Sleep(5 * time.Second)
		for _, n := range rest {
			if st := n.Cluster().Status(); !st.Ready || st.RaftLeader == "" {
				t.Errorf("node %d: ready %v, raft leader %q with all back", n.Index(), st.Ready, st.RaftLeader)
			}
			if list := told.Of("a raft leader again", "node="+n.Cluster().ID()); len(list) != 1 {
				t.Errorf("node %d said %q", n.Index(), list)
			}
		}
	})
}

// A change of raft leaders is no news for people.
func TestAnElectionIsNoError(t *testing.T) {
	t.Parallel()
	told := &testlog.Lines{}
	sim.Run(t, sim.Options{Nodes: 4, Logger: told.Logger(slog.LevelInfo)}, func(s *sim.Sim) {
		for range 3 {
			n := s.RaftLeader()
			n.Kill()
			time.Sleep(5 * time.Second)
			n.Open()
			n.Ready()
		}
		if list := told.Of("no raft leader:"); len(list) > 0 {
			t.Errorf("%q", list)
		}
	})
}
