package consensus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/lni/dragonboat/v4"
)

// Members is the group's membership: nodes by replica.
type Members struct {
	Voters   map[uint64]string
	Standbys map[uint64]string
	Change   uint64 // index of the last change, which the next one must name; 0: nothing applied yet
}

// Replica answers the replica of a node. It never has two: the engine refuses a member at a node that has one.
func (m Members) Replica(node string) (replica uint64, ok bool) {
	for replica, other := range m.All() {
		if other == node {
			return replica, true
		}
	}
	return 0, false
}

// Votes reports whether a node's replica votes.
func (m Members) Votes(node string) bool { return has(m.Voters, node) }

// Has reports whether a node has a replica.
func (m Members) Has(node string) bool { return m.Votes(node) || has(m.Standbys, node) }

// Includes reports whether a replica is a member.
func (m Members) Includes(replica uint64) bool {
	return m.Voters[replica] != "" || m.Standbys[replica] != ""
}

func has(members map[uint64]string, node string) bool {
	for _, other := range members {
		if other == node {
			return true
		}
	}
	return false
}

// All is every node with a replica, by replica.
func (m Members) All() map[uint64]string {
	all := maps.Clone(m.Voters)
	maps.Copy(all, m.Standbys)
	return all
}

// Members answers the membership as last applied here. It is empty before anything was applied.
func (g *Group) Members() Members {
	m := Members{Voters: make(map[uint64]string), Standbys: make(map[uint64]string)}
	var info *dragonboat.NodeHostInfo
	err := g.call(func(host *dragonboat.NodeHost) error {
		info = host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
		return nil
	})
	if err != nil || info == nil {
		return m
	}
	for _, s := range info.ShardInfoList {
		if s.ShardID != shard || s.Pending {
			continue
		}
		m.Change = s.ConfigChangeIndex
		for replica, node := range s.Replicas {
			m.Voters[replica] = node
		}
		// The engine tells the voters alone; all members were told to the registry when they were applied.
		// That may be a change later than the voters are: of a node whose replica was removed and that has another one by
		// then, the voter counts, as Change is of that time.
		for replica, node := range g.nodes.known() {
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

// AddStandby adds a replica of a node's to the group. change is Members.Change as the caller saw it: if the
// membership has changed since, the answer is ErrMembershipChanged, unless it is as wanted already. It is the answer, too, for a
// replica that was removed before, and for a node that has another replica in the group.
//
// This and the other changes make one attempt as Propose does, with its errors, and look again when its
// outcome is not known; ErrUnknown remains when even that fails.
func (g *Group) AddStandby(ctx context.Context, node string, replica, change uint64) error {
	if !isNode(node) || !isOf(node, replica) {
		return fmt.Errorf("%w: replica %x is none of node %q", ErrInvalid, replica, node)
	}
	return g.change(ctx, replica, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddNonVoting(shard, replica, node, change, patience)
	}, Members.Includes)
}

// Promote makes a standby a voter.
func (g *Group) Promote(ctx context.Context, node string, change uint64) error {
	replica, ok := g.Members().Replica(node)
	if !ok {
		return fmt.Errorf("%w: %w: node %q has no replica", ErrNotProposed, ErrInvalid, node)
	}
	return g.change(ctx, replica, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddReplica(shard, replica, node, change, patience)
	}, func(m Members, replica uint64) bool { return m.Voters[replica] != "" })
}

// Remove removes a node's replica, for ever: only another one of the node's can be added. The last voter can't be
// removed.
func (g *Group) Remove(ctx context.Context, node string, change uint64) error {
	members := g.Members()
	replica, ok := members.Replica(node)
	switch {
	case !isNode(node):
		return fmt.Errorf("%w: node %q is no lower-case UUID", ErrInvalid, node)
	case !ok && members.Change != 0:
		return nil // asking again would make the group longer-lived state of nothing
	case !ok:
		return fmt.Errorf("%w: the members are not known yet", ErrNotProposed)
	}
	return g.change(ctx, replica, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestDeleteReplica(shard, replica, change, patience)
	}, func(m Members, replica uint64) bool { return !m.Includes(replica) })
}

func (g *Group) change(ctx context.Context, replica uint64, ask ask, done func(Members, uint64) bool) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	before := g.Members()
	if before.Change != 0 && done(before, replica) {
		return nil
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
