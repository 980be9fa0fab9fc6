package virtual_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// roles are the nodes by what they do in the group, as each says of itself.
func roles(s *sim.Sim) map[holdfast.Role][]*sim.Node {
	of := make(map[holdfast.Role][]*sim.Node)
	for _, n := range s.Nodes() {
		if c := n.Cluster(); c != nil {
			role := c.Status().Role
			of[role] = append(of[role], n)
		}
	}
	return of
}

// so reports whether so many nodes hold a replica, and so many are clients that are served.
func so(s *sim.Sim, voters, standbys, clients int) bool {
	of := roles(s)
	return len(of[holdfast.RoleVoter]) == voters && len(of[holdfast.RoleStandby]) == standbys && len(of[holdfast.RoleClient]) == clients &&
		!slices.ContainsFunc(of[holdfast.RoleClient], func(n *sim.Node) bool { return !n.Cluster().Status().Ready })
}

// Whoever is beyond the replicas of a group is a client, becomes a standby when a replica is gone, and
// keeps its lease, its waiting call and its watch on the way.
func TestAClientBecomesAStandbyWhenAReplicaIsGoneAndLosesNothing(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 7, Config: replacedSoon}, func(s *sim.Sim) {
		testkit.Settles(t, time.Minute, "five replicas and two clients", func() bool { return so(s, 3, 2, 2) })
		clients := roles(s)[holdfast.RoleClient]
		var leases []*holdfast.Lease
		for i, n := range clients {
			leases = append(leases, testkit.Get(t, n.Cluster(), fmt.Sprint("own", i), holdfast.WithTTL(2*time.Second)))
		}
		for _, n := range slices.Concat(roles(s)[holdfast.RoleStandby], roles(s)[holdfast.RoleVoter][:1]) {
			if so(s, 3, 2, 0) {
				break
			}
			n.Kill()
		}
		testkit.Settles(t, 2*time.Minute, "two standbys that were clients", func() bool { return so(s, 3, 1, 0) || so(s, 3, 2, 0) })
		for _, l := range leases {
			if err := testkit.Until(time.Second).Err(); err != nil || !l.Valid() {
				t.Error(err)
			}
			if err := l.Err(); err != nil {
				t.Error(err)
			}
		}
	})
}
