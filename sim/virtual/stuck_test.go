package virtual_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// A voter that is heard, and is sent nothing large by anybody, votes for nothing. A standby takes its place
// after ReplaceAfter, and no sooner.
func TestAVoterThatIsHeardWithoutProgressIsReplacedByAStandby(t *testing.T) {
	t.Parallel()
	fiveWithASpare(t, func(s *sim.Sim) {
		leader := s.RaftLeader()
		var stuck *sim.Node
		for _, n := range s.Nodes()[:4] {
			if n != leader && n.Cluster().Status().Role == holdfast.RoleVoter {
				stuck = n
			}
		}
		id := stuck.Cluster().ID()
		defer busy(leader)()
		began := time.Now()
		for _, n := range s.Nodes()[:4] {
			if n != stuck {
				s.Faults(n.Index(), stuck.Index(), transport.Faults{Large: 600})
			}
		}
		testkit.Settles(t, 10*time.Second, "word of the voter without progress", func() bool {
			return slices.ContainsFunc(leader.Cluster().Status().Voters, func(v holdfast.Replica) bool {
				return v.ID == id && v.Heard < time.Second && strings.HasPrefix(v.Ill, "it is heard, and has acknowledged nothing for ")
			})
		})
		testkit.Settles(t, 2*time.Minute, "replacement", func() bool { return hasReplaced(leader.Cluster(), id) })
		if took := time.Since(began); took < 29*time.Second || took > 40*time.Second {
			t.Errorf("replaced after %v", took)
		}
		s.Heal()
		testkit.Settles(t, time.Minute, "all four, well again", func() bool {
			st := leader.Cluster().Status()
			return stuck.Cluster().Status().Ready && len(st.Voters) == 3 && len(st.Standbys) == 1 && st.Standbys[0].ID == id
		})
	})
}
