package node

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/recovery"
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

// The group has fewer voters now than the source of a recovery: its nodes were no majority of those, and the
// recovery made a second group. Where a node in sight has no majority the recovery goes on.
func TestALookAsksTheGroupOfNowWhetherItLives(t *testing.T) {
	t.Parallel()
	for name, lives := range map[string]bool{"two have left": true, "two are lost": false} {
		synctest.Test(t, func(t *testing.T) {
			network := transport.NewMemory(1)
			nodes := fleet(t, []*heard{{}, {}, {}}, network, nil)
			ctx := ready(t, nodes...)
			former := recovery.Former{Cluster: "test", ClusterID: nodes[0].ClusterID()}
			for _, n := range nodes {
				former.Voters = append(former.Voters, n.ID())
			}
			for _, n := range nodes[1:] {
				if !lives {
					network.Isolate(n.Addr())
				} else if err := n.Leave(ctx); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			security, keys, err := transport.Security("test", nodes[0].cfg.Secrets, nil)
			if err != nil {
				t.Fatal(err)
			}
			endpoint, err := network.Listen(t.Context(), "10.0.0.9:7643", transport.Options{TLS: security, Logger: nodes[0].cfg.Logger})
			if err != nil {
				t.Fatal(err)
			}
			search := recovery.Search{Join: []string{nodes[0].Addr()}, Endpoint: endpoint, Keys: keys, Logger: nodes[0].cfg.Logger}
			if err := search.Look(t.Context(), former); errors.Is(err, recovery.ErrAlive) != lives {
				t.Errorf("%s: %v", name, err)
			}
			if err := endpoint.Close(); err != nil {
				t.Error(err)
			}
			network.Heal()
			for _, n := range nodes {
				n.Close()
			}
			time.Sleep(time.Minute) // memberlist's goroutines end
		})
	}
}
