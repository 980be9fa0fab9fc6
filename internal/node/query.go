package node

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// ID is the node's id.
func (n *Node) ID() string { return n.self.Node.String() }

// Addr is the address that other nodes reach this one at.
func (n *Node) Addr() string {
	if m, ok := n.gossip.Member(n.ID()); ok {
		return m.Addr
	}
	return n.endpoint.Addr()
}

// ClusterID is the id of the node's group, "" before it has one.
func (n *Node) ClusterID() string { return n.dir.Identity().ClusterID }

// Members are the nodes that gossip sees, this one included.
func (n *Node) Members() []membership.Member { return n.gossip.Members() }

// Traffic is how many bytes gossip has sent and received.
func (n *Node) Traffic() (sent, received uint64) { return n.gossip.Traffic() }

// Foreign is the cluster ids of the other groups of the name in sight.
func (n *Node) Foreign() []string { return n.founder.rivals.list() }

// Plan is the next change of the membership, or what the raft leader waits for before it; "" on any
// other node.
func (n *Node) Plan() string {
	if plan := n.pilot.plan.Load(); plan != nil {
		return plan.String()
	}
	return ""
}

// View is what the node's replica knows of its group.
type View struct {
	Voters, Standbys []string // nodes
	RaftLeader       string   // the node that is, "" for none
	Term             uint64
	Applied          uint64 // index of the log
	Serves           bool   // the group has a raft leader and serves, and the node has its place there
}

// View returns what the replica knows now, the zero View while the node has none.
func (n *Node) View() (v View) {
	group, _ := n.Proposer.Current()
	if group == nil {
		return v
	}
	members := group.Members()
	for _, node := range members.Voters {
		v.Voters = append(v.Voters, node)
	}
	for _, node := range members.Standbys {
		v.Standbys = append(v.Standbys, node)
	}
	known := false
	v.RaftLeader, v.Term, known = n.raftLeader(group)
	group.Read(func(m *fsm.Machine) { v.Applied = m.Applied() })
	v.Serves = known && n.serves(group)
	return v
}

// Joined waits until the group has accepted this process.
func (n *Node) Joined(ctx context.Context) error {
	for {
		greeted, changed := n.Proposer.Accepted()
		if greeted {
			if n.leaving() {
				return ErrClosed
			}
			return nil
		}
		select {
		case <-changed:
		case <-n.closing:
			return n.Stopped()
		case <-ctx.Done():
			return unreached(ctx)
		}
	}
}

// Ready waits until the node can serve: it belongs to a group that has its voters, the local
// replica has caught up, and a raft leader answers. The first time it also waits until all voters
// that gossip sees answer a probe.
func (n *Node) Ready(ctx context.Context) error {
	if err := n.Joined(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if err := n.Stopped(); err != nil {
			return err
		}
		group, err := n.Proposer.Barrier(ctx)
		if err != nil {
			return err
		}
		if n.serves(group) && (n.founder.placed.Load() || n.answered(ctx, group)) {
			n.founder.placed.Store(true)
			return nil
		}
		_, changed := n.Proposer.Current()
		if err := n.Proposer.Pause(ctx, min(attempt, 6), changed); err != nil {
			return err
		}
	}
}
