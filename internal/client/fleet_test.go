package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/transport"
)

// Three nodes with Raft, one of which closes, and a client that hung on it: the lease lives on, and
// the lock goes from the client to a node and back.
func TestAClientOfAFleetGoesToAnotherReplica(t *testing.T) {
	t.Parallel()
	network, log := transport.NewMemory(1), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var nodes []*holdfast.Cluster
	for i := range 3 {
		cfg := holdfast.Config{
			Cluster: "test", Name: fmt.Sprint("n", i), Bind: fmt.Sprintf("10.0.0.%d:1", i+1), Bootstrap: 3, Voters: 3, Insecure: true,
			Join: []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, Logger: log,
		}
		c, err := holdfast.Open(simenv.With(ctx, simenv.Env{Network: network}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		nodes = append(nodes, c)
	}
	c, err := holdfast.Open(simenv.With(ctx, simenv.Env{Network: network}), holdfast.Config{
		Cluster: "test", Name: "client", ClientOnly: true, Join: []string{"10.0.0.1:1"}, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := errors.Join(nodes[0].Ready(ctx), nodes[1].Ready(ctx), c.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	held, err := c.Acquire(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := nodes[1].Acquire(ctx, "x")
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	<-held.Wanted()
	nodes[0].Close()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryAcquire(ctx, "other"); err != nil || !held.Valid() {
		t.Fatalf("at another replica: %v, valid: %v", err, held.Valid())
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	next := <-granted
	if next == nil || next.Token() <= held.Token() {
		t.Fatalf("%v after %v", next, held.Token())
	}
	if err := next.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(ctx, "x"); err != nil {
		t.Error(err)
	}
}

// A client that joined by a node of another zone moves to the replica in its own: with the links to all
// others cut, it is still served at once, and keeps what it held.
func TestAClientHangsOnTheReplicaOfItsZone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, hangsOnTheReplicaOfItsZone) // a busy machine would end connections too
}

func hangsOnTheReplicaOfItsZone(t *testing.T) {
	t.Cleanup(func() { time.Sleep(time.Minute) }) // virtual: gossip's own goroutines live on after Close
	network := transport.NewMemory(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	open := func(cfg holdfast.Config) *holdfast.Cluster {
		cfg.Cluster = "test"
		if cfg.Logger == nil {
			cfg.Logger = slog.New(slog.DiscardHandler)
		}
		c, err := holdfast.Open(simenv.With(ctx, simenv.Env{Network: network}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var nodes []*holdfast.Cluster
	for i, zone := range []string{"a/1", "b/2", "c/3"} {
		nodes = append(nodes, open(holdfast.Config{
			Name: zone, Zone: zone, Bind: fmt.Sprintf("10.0.0.%d:1", i+1), Bootstrap: 3, Insecure: true, Join: []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"},
		}))
	}
	for _, n := range nodes {
		if err := n.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var ends testlog.Lines // of connections
	c := open(holdfast.Config{
		Name: "client", Zone: "b/7", ClientOnly: true, Join: []string{"10.0.0.1:1"}, Logger: ends.Logger(slog.LevelDebug),
	})
	held, err := c.Acquire(ctx, "x", holdfast.WithTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(ctx); err != nil { // it has met a replica that told it of the others
		t.Fatal(err)
	}
	for _, other := range []string{"10.0.0.1", "10.0.0.3"} {
		network.Cut("127.0.0.1", other)
		network.Cut(other, "127.0.0.1")
	}
	for range 3 {
		if err := c.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		l, err := c.TryAcquire(ctx, "y")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !held.Valid() {
		t.Errorf("the lease ended with the move: %v", held.Err())
	}
	if said := ends.String(); strings.Count(said, "no replica serves") != 1 || !strings.Contains(said, "in the zone of this client") {
		t.Errorf("its connections ended otherwise than by one move:\n%s", said)
	}
}
