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

// Clients whose disks are full, or hang, are there when a standby dies. Each that was chosen in its place died of
// it, with its leases, and then the next one was chosen.
func TestAClientOnASickDiskLivesAndAnotherIsTheStandby(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(n *sim.Node, sick bool){"full": (*sim.Node).FullDisk, "hangs": (*sim.Node).HangDisk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 8, Late: true, Config: five}, func(s *sim.Sim) {
				for _, n := range s.Nodes()[:7] {
					n.Open()
				}
				settles(t, s, 3, 2, 2)
				clients := roles(s)[holdfast.RoleClient]
				var held []*holdfast.Lease
				for i, n := range clients {
					held = append(held, testkit.Get(t, n.Cluster(), fmt.Sprint("held", i), holdfast.WithTTL(2*time.Second)))
					spoil(n, true)
				}
				roles(s)[holdfast.RoleStandby][0].Kill()
				time.Sleep(2 * time.Minute)
				settles(t, s, 3, 1, 2)
				s.Node(7).Open()
				settles(t, s, 3, 2, 2)
				for i, n := range clients {
					if role := n.Cluster().Status().Role; role != holdfast.RoleClient || !held[i].Valid() {
						t.Errorf("client %d is a %v, and its lease is valid: %v, %v", i, role, held[i].Valid(), held[i].Err())
					}
					if isStandby(s.RaftLeader(), n) {
						t.Errorf("client %d is still a standby of its group", i)
					}
					pair(t, n, "another")
					spoil(n, false)
				}
				time.Sleep(2 * time.Minute) // they are chosen again
				roles(s)[holdfast.RoleStandby][0].Kill()
				settles(t, s, 3, 2, 1)
			})
		})
	}
}

func isStandby(leader, n *sim.Node) bool {
	id := n.Cluster().ID()
	return slices.ContainsFunc(leader.Cluster().Status().Standbys, func(r holdfast.Replica) bool { return r.ID == id })
}
