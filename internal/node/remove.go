package node

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// orderAgain is when a node repeats its order to remove another: a raft leader forgets an order after
// ten seconds, and one that restarts, or comes by a snapshot, has never heard it.
const orderAgain = 3 * time.Second

// removal is a call of RemoveNode that waits.
type removal struct {
	node  fsm.Node
	order uint64         // number of its first order, or of another caller's that came first
	kept  chan fsm.Event // its refusal
}

// note is called, under pilot.mu, with each EventEvict.
func (r *removal) note(e *fsm.Event) {
	switch {
	case e.Session.Node != r.node:
	case e.Reason == fsm.ReasonNone && r.order == 0:
		r.order = e.Index
	case e.Reason != fsm.ReasonNone && r.order != 0 && e.Request >= r.order:
		select {
		case r.kept <- *e:
		default: // one is enough
		}
	}
}

// RemoveNode has the raft leader take the replica of a dead node out of the group, by an operator's
// order, and returns when it is out. See fsm.Evict: the order ends no session. The node repeats the
// order until ctx ends.
func (n *Node) RemoveNode(ctx context.Context, target fsm.Node, reason string) error {
	group, err := n.ordered(ctx, func(ctx context.Context) error { return n.asClient.roamer.RemoveNode(ctx, target, reason) })
	if group == nil {
		return err
	}
	id, known := target.String(), false
	group.Read(func(m *fsm.Machine) {
		for one := range m.Nodes() {
			known = known || one.Node == target
		}
	})
	switch member := group.Members().Has(id); {
	case !member && !known:
		return seam.ErrUnknownNode
	case !member:
		return nil
	}
	r := &removal{node: target, kept: make(chan fsm.Event, 1)}
	defer n.pilot.await(r)()
	return n.order(ctx, r, reason)
}

// await registers a call of RemoveNode, and returns what ends that.
func (p *pilot) await(r *removal) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removals[r] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.removals, r)
	}
}

// order proposes the order, again and again, until the node has no replica or the order is refused.
func (n *Node) order(ctx context.Context, r *removal, reason string) error {
	ticker := time.NewTicker(leavePause)
	defer ticker.Stop()
	for next := time.Now(); ; {
		group, _ := n.Proposer.Current()
		if group != nil {
			if members := group.Members(); members.Change != 0 && !members.Has(r.node.String()) {
				return nil
			}
		}
		if group != nil && !time.Now().Before(next) {
			cmd := fsm.Evict{Node: r.node, Reason: reason}
			group.Read(func(m *fsm.Machine) { cmd.Seen = m.Commands() })
			out, err := n.insist(ctx, cmd)
			switch {
			case err != nil:
				return err
			case out.Code == fsm.CodeOK:
				next = time.Now().Add(orderAgain)
			case out.Code != fsm.CodeFinished: // another order came first
				return &seam.RefusedError{Outcome: out}
			}
		}
		select {
		case e := <-r.kept:
			return &seam.KeptError{Node: r.node.String(), Reason: e.Reason}
		case <-ticker.C:
		case <-n.closing:
			return n.Stopped()
		case <-ctx.Done():
			return &seam.UnknownError{Cause: unreached(ctx)}
		}
	}
}
