package node

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// fleetOf is nodes of a group with four replicas: what is beyond them is a client.
func fleetOf(t *testing.T, count int) (nodes []*Node) {
	t.Helper()
	network, log := transport.NewMemory(1), slog.New(slog.DiscardHandler)
	for i := range count {
		cfg := Config{Bind: fmt.Sprintf("10.0.0.%d:7643", i+1), Name: fmt.Sprint("node-", i), Replicas: 4, Logger: log, Env: simenv.Env{Network: network}}
		if i > 0 {
			cfg.Join = []string{"10.0.0.1:7643"}
		}
		nodes = append(nodes, opened(t, &heard{}, cfg))
		ready(t, nodes...)
	}
	return nodes
}

// A client is given a replica, which the group removes before it has caught up: a standby that was
// silent is heard again. The node went on to hang on the other replica without having greeted it, and
// no call of it ended any more.
func TestAClientWhoseNewReplicaIsRemovedIsAClientAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fleetOf(t, 5)
		client := nodes[4]
		if !client.asClient.serves() {
			t.Fatal("the fifth node is no client")
		}
		client.founder.replicaRemoved(client.founder.replica(), false)
		time.Sleep(10 * time.Second)
		ctx := ready(t, client)
		if err := client.Joined(ctx); err != nil {
			t.Error(err)
		}
	})
}
