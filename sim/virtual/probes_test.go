package virtual_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// dials counts the connections of a kind that the nodes of a network make.
type dials struct {
	transport.Network
	kind transport.Kind
	n    atomic.Int64
}

func (d *dials) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := d.Network.Listen(ctx, bind, opts)
	return &dialer{e, d}, err
}

type dialer struct {
	transport.Endpoint
	d *dials
}

func (e *dialer) Dial(ctx context.Context, addr string, kind transport.Kind) (net.Conn, error) {
	if kind == e.d.kind {
		e.d.n.Add(1)
	}
	return e.Endpoint.Dial(ctx, addr, kind)
}

// A node that has not found a group is probed at its address, and probes others. A client asks for a
// replica for as long as it lives, and is taken for no such node: a fleet of a hundred made five
// hundred connections a second.
func TestAFleetThatIsWellProbesNobody(t *testing.T) {
	t.Parallel()
	probes := &dials{kind: transport.KindProbe}
	sim.Run(t, sim.Options{Nodes: 9, Config: five, Env: func(_ int, env *simenv.Env) {
		probes.Network = env.Network
		env.Network = probes
	}}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 4)
		time.Sleep(10 * time.Second)
		before := probes.n.Load()
		time.Sleep(time.Minute)
		if n := probes.n.Load() - before; n > 0 {
			t.Errorf("%d probes in a minute", n)
		}
	})
}
