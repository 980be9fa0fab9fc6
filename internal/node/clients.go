package node

import (
	"context"

	"github.com/holdfast-go/holdfast/transport"
)

// serveClients lets clients hang on this node's replica, where Env says so: no Config can have a
// client yet.
func (n *Node) serveClients() {
	if !n.cfg.Env.Clients {
		return
	}
	listener := n.endpoint.Listener(transport.KindClient)
	n.Go(func(ctx context.Context) { n.clients.Run(ctx, listener) })
}

// addresses are those of the nodes with a replica, as gossip knows them: where clients go
// when this one is gone.
func (n *Node) addresses() (addresses []string) {
	group, _ := n.Proposer.Current()
	if group == nil {
		return nil
	}
	members := group.Members()
	for _, m := range n.gossip.Members() {
		if m.Here() && members.Has(m.Node) {
			addresses = append(addresses, m.Addr)
		}
	}
	return addresses
}
