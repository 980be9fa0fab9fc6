package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
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
