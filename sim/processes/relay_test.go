package processes_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
	"github.com/holdfast-go/holdfast/transport"
)

// outpost is a node that the others reach through a relay alone, which remembers what they send.
type outpost struct {
	*holdfast.Cluster
	place int
	relay *relay.Relay
	at    atomic.Pointer[string] // where the node listens
	log   *testlog.Lines
}

// real is where the node listens.
func (o *outpost) real() string { return *o.at.Load() }

// seen is what was sent to the node so far.
func (o *outpost) seen() (streams, packets [][]byte) { return o.relay.Sent(o.place) }

// tapped is the real network, where the relay learns the node's port.
type tapped struct {
	transport.Network
	o *outpost
}

func (n tapped) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := n.Network.Listen(ctx, bind, opts)
	if err == nil {
		addr := e.Addr()
		n.o.at.Store(&addr)
		n.o.relay.Serve(n.o.place, addr)
	}
	return e, err
}

// outposts opens nodes that reach each other through the relay alone: to a node the sender
// is the world.
func outposts(t testing.TB, n int, change func(*holdfast.Config)) []*outpost {
	t.Helper()
	world := n
	r, err := relay.New(n+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Record()
	t.Cleanup(func() { r.Close() })
	list := make([]*outpost, n)
	var join []string
	for i := range list {
		list[i] = &outpost{place: i, relay: r, log: &testlog.Lines{}}
		join = append(join, r.Route(world, i).Gossip)
	}
	clusters := make([]*holdfast.Cluster, n)
	t.Cleanup(func() { // at once: one that is left behind waits for those that went
		var closing sync.WaitGroup
		for _, c := range clusters {
			if c != nil {
				closing.Go(func() { c.Close() })
			}
		}
		closing.Wait()
	})
	for i, o := range list {
		cfg := holdfast.Config{Advertise: join[i], Join: join, Bootstrap: n, Logger: o.log.Logger(slog.LevelWarn)}
		if change != nil {
			change(&cfg)
		}
		c, err := holdfast.Open(simenv.With(t.Context(), simenv.Env{Network: tapped{transport.TCP(), o}}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		o.Cluster, clusters[i] = c, c
	}
	testkit.AllReady(t, clusters)
	return list
}
