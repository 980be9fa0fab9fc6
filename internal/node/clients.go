package node

import (
	"context"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// serveClients lets clients hang on this node's replica.
func (n *Node) serveClients() {
	n.endpoint.Handle(transport.KindClient, func(conn net.Conn) {
		if !n.Do(func(ctx context.Context) { n.clients.Serve(ctx, conn) }) {
			_ = conn.Close()
		}
	})
}

// well reports whether clients are served here: by a replica that is not ill, and whose node does not
// leave.
func (n *Node) well() bool {
	group, _ := n.Proposer.Current()
	return group != nil && n.Stopped() == nil && !n.isIll()
}

// groupID is the id of the group that this node is of, zero while there is none.
func (n *Node) groupID() [16]byte {
	id, err := fsm.ParseNode(n.ClusterID())
	if err != nil {
		return [16]byte{}
	}
	return id
}

// led reports whether the replica hears a raft leader.
func (n *Node) led() bool {
	group, _ := n.Proposer.Current()
	if group == nil {
		return false
	}
	_, _, ok := n.raftLeader(group)
	return ok
}

// addressesKept is how long a list of addresses is good enough. Each client asks four times a second,
// and the list is made of all that gossip sees. A node that is ready makes another: its client goes by it
// when this node is gone a moment later.
const addressesKept = time.Second

// addresses are those of the nodes with a replica, as gossip knows them: where clients go
// when this one is gone.
func (n *Node) addresses() (addresses []string) {
	group, _ := n.Proposer.Current()
	if group == nil {
		return nil
	}
	if last := n.others.Load(); last != nil && time.Since(last.at) < addressesKept {
		return last.addresses
	}
	members := group.Members()
	for _, m := range n.gossip.Members() {
		if m.Here() && members.Has(m.Node) {
			addresses = append(addresses, m.Addr)
		}
	}
	n.others.Store(&others{addresses, time.Now()})
	return addresses
}

// others is what addresses found at one moment.
type others struct {
	addresses []string
	at        time.Time
}
