package contract_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim"
)

// Hosts made anew one by one at their own addresses: the newcomer itself answered at the address of
// the old voter, which so seemed to be there, and Ready returned after half a second. The next host
// was made anew, and the majority was lost.
func TestHostsMadeAnewOneByOneAtTheirAddressesNeverLoseTheGroup(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		group := s.Node(0).Cluster().Status().ClusterID
		for _, n := range s.Nodes() {
			n.Kill()
			n.Wipe()
			time.Sleep(300 * time.Millisecond)
			n.Open()
			n.Ready()
		}
		l, err := s.Node(0).Cluster().Acquire(until(20*time.Second), "door")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Release(until(20 * time.Second))
		if now := s.Node(0).Cluster().Status().ClusterID; now != group {
			t.Errorf("the group was %s and is %s", group, now)
		}
	})
}
