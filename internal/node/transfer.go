package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// TransferRaftLeader has a voter become raft leader, by an operator's order, and returns when it is.
//
// A voter passes the order on to the raft leader. The engine drops that of a standby, which sends it to
// the voter itself instead: that one asks in its place.
func (n *Node) TransferRaftLeader(ctx context.Context, target fsm.Node, reason string) error {
	group, err := n.ordered(ctx, func(ctx context.Context) error { return n.asClient.roamer.TransferRaftLeader(ctx, target, reason) })
	if group == nil {
		return err
	}
	id, members := target.String(), group.Members()
	if !members.Votes(id) {
		return seam.ErrNotVoter
	}
	n.log.Warn("an operator orders a transfer of the raft leadership", "target", n.described(id), "reason", reason)
	if !members.Votes(n.ID()) {
		m := forming.Message{Kind: forming.TakeOver, From: n.ID(), To: id, Cluster: n.ClusterID()}
		if err := n.gossip.Send(ctx, id, m.Encode()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: it is not reached: %w", seam.ErrNotTransferred, err)
		}
	}
	err = group.Transfer(ctx, id)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &seam.UnknownError{Cause: unreached(ctx)}
	case errors.Is(err, consensus.ErrUnknown), errors.Is(err, consensus.ErrNotProposed): // it votes no more, or the engine is busy
		return fmt.Errorf("%w: %w", seam.ErrNotTransferred, err)
	}
	return err
}

// takeOver asks the raft leader to transfer the raft leadership to this node, once at a time.
func (n *Node) takeOver(from string) {
	group, _ := n.Proposer.Current()
	if group == nil || !group.Members().Votes(n.ID()) || !n.takesOver.CompareAndSwap(false, true) {
		return
	}
	n.log.Warn("an operator orders that this node become raft leader", "by", n.described(from))
	n.Go(func(ctx context.Context) {
		defer n.takesOver.Store(false)
		if err := group.Transfer(ctx, n.ID()); err != nil {
			n.log.Warn("the raft leadership was not transferred to this node", "error", err)
		}
	})
}
