package node

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
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

// Group is the way to the group: the Proposer.
func (n *Node) Group() seam.Group { return n.Proposer }

// Status is what the node knows now of itself, its fleet and its group.
func (n *Node) Status() seam.Status {
	st := seam.Status{
		Addr: n.Addr(), ClusterID: n.ClusterID(), Foreign: n.founder.rivals.list(), Admission: n.Proposer.Waiting(), Knows: n.knows(),
	}
	seen := n.gossip.Members()
	st.Members, st.Drift, st.Level = members(seen), differences(seen), n.groupLevel()
	st.Sent, st.Received = n.gossip.Traffic()
	if plan := n.pilot.plan.Load(); plan != nil {
		st.Plan = plan.String()
	}
	if rise := n.pilot.rise.Load(); rise != nil {
		st.Rise = *rise
	}
	failure, closing := n.Failure()
	st.Failure = failure
	group, _ := n.Proposer.Current()
	if group == nil {
		n.asClient.show(&st)
		n.illness.show(&st)
		return st
	}
	members := group.Members()
	st.Voters, st.Standbys = n.replicas(group, members.Voters), n.replicas(group, members.Standbys)
	known := false
	st.RaftLeader, st.Term, known = n.raftLeader(group)
	group.Read(func(m *fsm.Machine) { st.Applied = m.Applied() })
	if st.Serves = !closing && known && n.accepted() && (n.serves(group) || n.founder.shown.Load() && n.grants(group)); st.Serves {
		n.founder.shown.Store(true)
	}
	n.illness.show(&st)
	return st
}

// members are what the seam has of those that gossip sees.
func members(seen []membership.Member) []seam.Member {
	members := make([]seam.Member, len(seen))
	for i, m := range seen {
		members[i] = seam.Member{
			Node: m.Node, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version, Level: m.Level, State: m.State, Local: m.Local,
		}
	}
	return members
}

// accepted reports whether the group has accepted this process.
func (n *Node) accepted() bool {
	greeted, _ := n.Proposer.Accepted()
	return greeted
}

// Joined waits until the group has accepted this process.
func (n *Node) Joined(ctx context.Context) error {
	for {
		greeted, changed := n.Proposer.Accepted()
		if greeted {
			if n.leaving() {
				return seam.ErrEnded
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
// that gossip sees answer a probe. As a client it is ready when the replica is that serves it.
func (n *Node) Ready(ctx context.Context) error {
	err := n.until(ctx, n.ready, n.asClient.ready)
	if err == nil {
		n.founder.placed.Store(true)
		n.others.Store(nil)
	}
	return err
}

// Complete waits until the voters are complete, for a client of this node's replica.
func (n *Node) Complete(ctx context.Context) error {
	return n.until(ctx, func(_ context.Context, group *consensus.Group) bool {
		return n.grants(group) && !n.isIll() && n.bears(group)
	}, func(context.Context) bool { return false })
}

// ready reports whether the node can serve with its replica.
func (n *Node) ready(ctx context.Context, group *consensus.Group) bool {
	return n.serves(group) && !n.isIll() && (n.founder.placed.Load() || n.answered(ctx, n.votersHere(group)))
}

// until waits until something holds: with a replica that has caught up, or as a client.
func (n *Node) until(ctx context.Context, holds func(context.Context, *consensus.Group) bool, client func(context.Context) bool) error {
	if err := n.Joined(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if err := n.Stopped(); err != nil {
			return err
		}
		group, err := n.Proposer.Barrier(ctx)
		switch {
		case errors.Is(err, seam.ErrNoGroup):
			if client(ctx) {
				return nil
			}
		case err != nil:
			return err
		case holds(ctx, group):
			return nil
		}
		_, changed := n.Proposer.Current()
		if err := n.Proposer.Pause(ctx, min(attempt, 6), changed); err != nil {
			return err
		}
	}
}
