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
	Voters    map[uint64]string
	NonVoters map[uint64]string
	Change    uint64 // index of the last change, which the next one must name; 0: nothing applied yet
}

// Votes reports whether a node's replica votes.
func (m Members) Votes(node string) bool { return m.Voters[ReplicaID(node)] != "" }

// Has reports whether a node has a replica.
func (m Members) Has(node string) bool { return m.Votes(node) || m.NonVoters[ReplicaID(node)] != "" }

// All is every node with a replica, by replica.
func (m Members) All() map[uint64]string {
	all := maps.Clone(m.Voters)
	maps.Copy(all, m.NonVoters)
	return all
}

// Members answers the membership as last applied here. It is empty before anything was applied.
func (g *Group) Members() Members {
	m := Members{Voters: make(map[uint64]string), NonVoters: make(map[uint64]string)}
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
		for replica, node := range g.nodes.known() {
			if _, votes := m.Voters[replica]; !votes {
				m.NonVoters[replica] = node
			}
		}
		if s.IsNonVoting {
			m.NonVoters[g.cfg.Replica] = g.cfg.Node
		}
	}
	return m
}

// AddNonVoter adds a node's replica to the group. change is Members.Change as the caller saw it: if the
// membership has changed since, the answer is ErrMembershipChanged, unless it is as wanted already.
//
// This and the other changes make one attempt as Propose does, with its errors, and look again when its
// outcome is not known; ErrUnknown remains when even that fails.
func (g *Group) AddNonVoter(ctx context.Context, node string, change uint64) error {
	return g.change(ctx, node, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddNonVoting(shard, ReplicaID(node), node, change, patience)
	}, func(m Members, replica uint64) bool { return m.NonVoters[replica] != "" || m.Voters[replica] != "" })
}

// Promote makes a non-voter a voter.
func (g *Group) Promote(ctx context.Context, node string, change uint64) error {
	return g.change(ctx, node, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestAddReplica(shard, ReplicaID(node), node, change, patience)
	}, func(m Members, replica uint64) bool { return m.Voters[replica] != "" })
}

// Remove removes a node's replica; it can never come back under its node id. The last voter can't be removed.
func (g *Group) Remove(ctx context.Context, node string, change uint64) error {
	return g.change(ctx, node, func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
		return h.RequestDeleteReplica(shard, ReplicaID(node), change, patience)
	}, func(m Members, replica uint64) bool { return m.NonVoters[replica] == "" && m.Voters[replica] == "" })
}

func (g *Group) change(ctx context.Context, node string, ask ask, done func(Members, uint64) bool) error {
	if !isNode(node) {
		return fmt.Errorf("%w: node %q is no lower-case UUID", ErrInvalid, node)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	before := g.Members()
	if before.Change != 0 && done(before, ReplicaID(node)) {
		return nil // asking again would make the group longer-lived state of nothing
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
	case done(after, ReplicaID(node)):
		return nil
	case rejected, after.Change != before.Change:
		return ErrMembershipChanged
	}
	return err
}
