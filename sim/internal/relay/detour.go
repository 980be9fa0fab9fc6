package relay

import (
	"context"
	"fmt"
	"net"

	"github.com/holdfast-go/holdfast/transport"
)

// Advertised is the address that process i of a fleet behind a relay advertises: nothing is bound there.
func Advertised(i int) string { return fmt.Sprintf("127.77.0.%d:7643", i+1) }

// Detour is the network of one process of the fleet: what it sends to one of the addresses in
// routes goes to the relay's port for it and its kind instead, and nothing can be sent to any other
// address. bound is told the real address that the process listens at, for Relay.Serve; it may be
// nil.
func Detour(network transport.Network, routes map[string]Route, bound func(addr string)) transport.Network {
	d := detour{network: network, routes: make(map[string]Route, 2*len(routes)), bound: bound}
	for name, at := range routes {
		d.routes[name] = at
		d.routes[at.Gossip] = at // answers go to where a packet came from
	}
	return d
}

type detour struct {
	network transport.Network
	routes  map[string]Route
	bound   func(string)
}

// Listen opens an endpoint of the real network whose ways out lead through the relay.
func (d detour) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := d.network.Listen(ctx, bind, opts)
	if err != nil {
		return nil, err
	}
	if d.bound != nil {
		d.bound(e.Addr())
	}
	return endpoint{e, d.routes}, nil
}

type endpoint struct {
	transport.Endpoint
	routes map[string]Route
}

// Dial connects through the relay.
func (e endpoint) Dial(ctx context.Context, addr string, kind transport.Kind) (net.Conn, error) {
	at, ok := e.routes[addr]
	if !ok {
		return nil, fmt.Errorf("relay: no route to %s", addr)
	}
	return e.Endpoint.Dial(ctx, at.of(kind), kind)
}

// WritePacket sends through the relay.
func (e endpoint) WritePacket(b []byte, addr string) error {
	at, ok := e.routes[addr]
	if !ok {
		return fmt.Errorf("relay: no route to %s", addr)
	}
	return e.Endpoint.WritePacket(b, at.Gossip)
}
