package virtual_test

import (
	"context"
	"errors"
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

// Ready is what a probe of an orchestrator asks: it must not pass while calls would get no answer.
func TestReadyIsNotPassedWhileTheNodeIsIll(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *sim.Sim, n *sim.Node){
		"cut off":              func(_ *sim.Sim, n *sim.Node) { n.Isolate() },
		"on a disk that hangs": func(_ *sim.Sim, n *sim.Node) { n.HangDisk(true) },
		"sent nothing large": func(s *sim.Sim, n *sim.Node) {
			for _, other := range testkit.Others(s, n) {
				s.Faults(other.Index(), n.Index(), transport.Faults{Large: 600})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
				n := follower(s)
				defer busy(s.RaftLeader())()
				spoil(s, n)
				testkit.Settles(t, 10*time.Second, "a node that does not serve", func() bool { return !n.Cluster().Status().Ready })
				for range 5 {
					if err := n.Cluster().Ready(testkit.Until(3 * time.Second)); !errors.Is(err, holdfast.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Ready returned %v, and the node waits for %q", err, n.Cluster().Status().Waits)
					}
				}
				n.HangDisk(false)
				n.Rejoin()
				s.Heal()
				err := n.Cluster().Ready(testkit.Until(time.Minute))
				if st := n.Cluster().Status(); err != nil || st.Metrics.Ill {
					t.Errorf("Ready returned %v, ill is %v, and the node waits for %q", err, st.Metrics.Ill, st.Waits)
				}
			})
		})
	}
}
