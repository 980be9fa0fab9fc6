package virtual_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// fiveWithASpare runs f on four nodes and one more that is not opened.
func fiveWithASpare(t *testing.T, f func(s *sim.Sim)) {
	t.Helper()
	sim.Run(t, sim.Options{Nodes: 5, Late: true, Config: testkit.LongTTL}, func(s *sim.Sim) {
		for i := range 4 {
			s.Node(i).Open()
		}
		for i := range 4 {
			s.Node(i).Ready()
		}
		f(s)
	})
}

// voterAndOther are, of the first four, a node whose replica votes, which is removed soon after it
// is missed, and another one.
func voterAndOther(s *sim.Sim) (voter, other *sim.Node) {
	for i := range 4 {
		n := s.Node(i)
		switch role := n.Cluster().Status().Role; {
		case role == holdfast.RoleVoter && voter == nil:
			voter = n
		default:
			other = n
		}
	}
	return voter, other
}
