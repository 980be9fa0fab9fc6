package recovery

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// Two of three voters died one after the other, and the standbys took their places after the directory
// was written. They were not counted, and a second group would have granted what theirs grants.
func TestTheStandbysOfBeforeMayBeTheVotersOfNow(t *testing.T) {
	t.Parallel()
	f := Former{Cluster: "fleet", ClusterID: "group", Voters: []string{"a", "b", "c"}}
	runs := func(nodes ...string) (list []membership.Member) {
		for _, node := range nodes {
			list = append(list, membership.Member{
				Meta: membership.Meta{Node: node, ClusterID: f.ClusterID, Phase: autopilot.PhaseRunning}, State: membership.Alive,
			})
		}
		return list
	}
	for _, c := range []struct {
		members []membership.Member
		alive   bool
	}{
		{runs(), false}, {runs("c"), false}, {runs("e"), false},
		{runs("b", "c"), true}, {runs("c", "d", "e"), true}, {runs("d", "e"), true}, {runs("c", "new"), true},
	} {
		if err := f.alive(c.members); errors.Is(err, ErrAlive) != c.alive {
			t.Errorf("%d members: %v", len(c.members), err)
		}
	}
}
