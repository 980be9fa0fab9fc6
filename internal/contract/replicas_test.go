package contract_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// The raft leader says of each voter when it was heard, and of one that it does not hear so; a node
// whose raft leader is away says that.
func TestTheRaftLeaderSaysWhichVoterIsIll(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4}, func(s *sim.Sim) {
		leader, dead := s.RaftLeader(), follower(s, holdfast.RoleVoter)
		id := dead.Cluster().ID()
		voters := func() []holdfast.Replica { return leader.Cluster().Status().Voters }
		settles(t, 10*time.Second, "four that are well", func() bool {
			st := leader.Cluster().Status()
			return len(st.Voters) == 3 && len(st.Standbys) == 1 &&
				!slices.ContainsFunc(slices.Concat(st.Voters, st.Standbys), func(r holdfast.Replica) bool {
					return r.Ill != "" || r.Name == "" || r.Addr == "" || r.Heard < 0 || r.Heard > time.Second
				})
		})
		if list := voters(); !slices.IsSortedFunc(list, func(a, b holdfast.Replica) int { return strings.Compare(a.ID, b.ID) }) {
			t.Errorf("in no order: %v", list)
		}
		dead.Kill()
		settles(t, 5*time.Second, "the dead voter", func() bool {
			return !slices.ContainsFunc(voters(), func(r holdfast.Replica) bool { return (r.ID == id) != strings.HasPrefix(r.Ill, "not heard for ") })
		})
		dead.Open()
		settles(t, 10*time.Second, "all well again", func() bool {
			return !slices.ContainsFunc(voters(), func(r holdfast.Replica) bool { return r.Ill != "" })
		})
		other := follower(s, holdfast.RoleStandby).Cluster()
		settles(t, 10*time.Second, "the raft leader, heard by a standby", func() bool {
			st := other.Status()
			return slices.ContainsFunc(st.Voters, func(r holdfast.Replica) bool { return r.ID == st.RaftLeader && r.Heard >= 0 && r.Heard < time.Second })
		})
	})
}
