package node

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// The fleet was scaled down below half of the voters that the backup has, and the node that restores the backup
// starts again. It saw too few nodes for a majority of those voters, and its second group served beside the
// first one for good.
func TestANodeThatRestoresTheBackupOfALargerFleetJoinsWhatIsLeftOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		nodes := fleet(t, []*heard{{}, {}, {}}, network, nil)
		ctx := ready(t, nodes...)
		var backup bytes.Buffer
		if err := nodes[0].Backup(ctx, &backup); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes[1:] {
			if err := n.Leave(ctx); err != nil {
				t.Fatal(err)
			}
		}
		seed := opened(t, &heard{}, Config{
			Bind: "10.0.0.9:7643", Name: "seed", Join: []string{nodes[0].Addr()}, Restore: &backup, Env: simenv.Env{Network: network},
		})
		time.Sleep(time.Minute)
		if seed.ClusterID() != nodes[0].ClusterID() {
			t.Errorf("it serves group %s beside %s", seed.ClusterID(), nodes[0].ClusterID())
		}
		ready(t, seed, nodes[0])
	})
}
