package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

// Members returns the membership as last applied here, empty before that.
func (g *Group) Members() autopilot.Members {
	m := autopilot.Members{Voters: make(map[uint64]string), Standbys: make(map[uint64]string)}
	var info *dragonboat.NodeHostInfo
	err := g.call(func(host *dragonboat.NodeHost) error {
		info = host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
		return nil
	})
	if err != nil || info == nil {
		return m
	}
	for _, s := range info.ShardInfoList {
		if s.ShardID != engine.Shard || s.Pending {
			continue
		}
		m.Change = s.ConfigChangeIndex
		for replica, node := range s.Replicas {
			m.Voters[replica] = node
		}
		// The engine reports the voters alone; the registry has all members, perhaps one change
		// later. If a node's replica was removed and it has another one by then, the voter counts,
		// as Change is of that time.
		for replica, node := range g.nodes.Members() {
			if !m.Votes(node) {
				m.Standbys[replica] = node
			}
		}
		if s.IsNonVoting {
			m.Standbys[g.cfg.Replica] = g.cfg.Node
		}
	}
	return m
}

// Basis is what a change of the membership was decided on, as its caller saw it before it decided.
type Basis struct {
	Change uint64 // Members.Change
	Term   uint64 // of Raft, in which this replica was raft leader
}

// AddStandby adds a replica of a node to the group. If the membership has changed since the caller
// saw on, the error is ErrMembershipChanged, unless the replica is there. It is also the error for a
// replica that was removed before, and for a node that has another replica in the group.
//
// A replica that is not the raft leader of that term any more proposes nothing: the error is
// ErrNotProposed. The next raft leader has heard others since, and decides by itself.
//
// This and the other changes make one attempt as Propose does, with its errors, and read the
// membership again when the outcome is unknown; ErrUnknown remains when even that fails.
func (g *Group) AddStandby(ctx context.Context, node string, replica uint64, on Basis) error {
	if !wire.IsNode(node) || !wire.IsOf(node, replica) {
		return fmt.Errorf("%w: replica %x is none of node %q", ErrInvalid, replica, node)
	}
	return g.change(ctx, replica, on.Term, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddNonVoting(engine.Shard, replica, node, on.Change, patience)
	}, autopilot.Members.Includes)
}

// Promote makes a standby a voter.
func (g *Group) Promote(ctx context.Context, node string, on Basis) error {
	replica, ok := g.Members().Replica(node)
	if !ok {
		return fmt.Errorf("%w: %w: node %q has no replica", ErrNotProposed, ErrInvalid, node)
	}
	return g.change(ctx, replica, on.Term, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddReplica(engine.Shard, replica, node, on.Change, patience)
	}, func(m autopilot.Members, replica uint64) bool { return m.Voters[replica] != "" })
}

// Remove removes a node's replica forever: only another one of the node can be added. The last
// voter can't be removed.
func (g *Group) Remove(ctx context.Context, node string, on Basis) error {
	members := g.Members()
	replica, ok := members.Replica(node)
	switch {
	case !wire.IsNode(node):
		return fmt.Errorf("%w: node %q is no lower-case UUID", ErrInvalid, node)
	case !ok && members.Change != 0:
		return nil // the group would remember each removal forever
	case !ok:
		return fmt.Errorf("%w: the members are not known yet", ErrNotProposed)
	}
	return g.change(ctx, replica, on.Term, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestDeleteReplica(engine.Shard, replica, on.Change, patience)
	}, func(m autopilot.Members, replica uint64) bool { return !m.Includes(replica) })
}

func (g *Group) change(ctx context.Context, replica, term uint64, ask ask, done func(autopilot.Members, uint64) bool) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	before := g.Members()
	if before.Change != 0 && done(before, replica) {
		return nil
	}
	if now, _ := g.leaders.now(); now.replica != g.cfg.Replica || now.term != term {
		return fmt.Errorf("%w: this replica is not the raft leader of term %d", ErrNotProposed, term)
	}
	_, _, err := g.request(ctx, ask)
	if err == nil || !errors.Is(err, ErrUnknown) {
		return err
	}
	rejected := errors.Is(err, dragonboat.ErrRejected)
	if g.Barrier(ctx) != nil {
		if rejected {
			return ErrMembershipChanged
		}
		return err
	}
	switch after := g.Members(); {
	case done(after, replica):
		return nil
	case rejected, after.Change != before.Change:
		return ErrMembershipChanged
	}
	return err
}
