package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// fleetOf is nodes of a group with four replicas: what is beyond them is a client.
func fleetOf(t *testing.T, network *transport.Memory, count int) (nodes []*Node) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
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
		nodes := fleetOf(t, transport.NewMemory(1), 5)
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

// The order waits for a replica, and one serves the node meanwhile: it answered that there is no group.
func TestAnOrderOfAClientWaitsUntilAReplicaServesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		nodes := fleetOf(t, network, 5)
		client := nodes[4]
		network.Isolate(client.Addr())
		time.Sleep(5 * time.Second)
		if client.asClient.serves() {
			t.Fatal("a replica still serves the client")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 2)
		go func() { ended <- client.RemoveNode(ctx, fsm.Node{1}, "a test") }()
		go func() { ended <- client.Backup(ctx, io.Discard) }()
		time.Sleep(time.Second)
		network.Heal()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, seam.ErrUnknownNode) {
				t.Error(err)
			}
		}
	})
}
