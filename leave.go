package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	leavePause  = 20 * time.Millisecond // how often a leaving node looks whether it is out
	goodByeTime = 2 * time.Second       // for saying good-bye when there is no time left
)

// Leave is the planned departure of a node: it gives its leases back, hands raft leadership over, waits until the group
// has removed its replica (and promoted another in its place if there is one), says good-bye to the gossip, and
// closes. Its data directory then begins as a new node. The last node of a group only closes, and
// keeps its data. If ctx ends first the node is closed all the same; the group then replaces it as one
// that has left. A second call, or one after Close, answers ErrClosed.
func (c *Cluster) Leave(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if err := c.stopped(); err != nil {
		return err
	}
	if !c.leaving.CompareAndSwap(false, true) {
		return ErrClosed
	}
	defer c.Close()
	c.keeper.loseAll(ErrClosed)
	c.giveBack(ctx)
	err := c.depart(ctx)
	if ctx.Err() != nil { // the others must hear of it all the same
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), goodByeTime)
		defer cancel()
	}
	if e := c.gossip.Leave(ctx); err == nil {
		err = e
	}
	return err
}

// depart gets this node's replica out of the group.
func (c *Cluster) depart(ctx context.Context) error {
	group, _ := c.proposer.current()
	if group == nil || last(group) {
		return nil
	}
	if err := c.gossip.SetMeta(c.meta(membership.PhaseLeaving)); err != nil {
		return err
	}
	ticker := time.NewTicker(leavePause)
	defer ticker.Stop()
	for c.member(group) {
		if last(group) {
			return nil
		}
		if group.IsRaftLeader() {
			c.handOver(ctx, group)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return unreached(ctx, attempts{})
		case <-c.closing:
			return c.stopped()
		}
	}
	return c.founder.save(func(id *datadir.Identity) { id.Retired = true })
}

// last reports whether this is the only replica of its group, as far as applied here.
func last(group *consensus.Group) bool {
	members := group.Members()
	return members.Change != 0 && len(members.Voters)+len(members.NonVoters) == 1
}

// member reports whether the group still has this node's replica.
func (c *Cluster) member(group *consensus.Group) bool {
	if c.founder.out.Load() {
		return false
	}
	members := group.Members()
	if members.Change == 0 {
		return !errors.Is(group.Barrier(c.ctx), consensus.ErrRemoved) // the engine has dropped a removed replica
	}
	return members.Has(c.ID())
}

// handOver makes another voter raft leader, one that gossip sees alive.
func (c *Cluster) handOver(ctx context.Context, group *consensus.Group) {
	for _, node := range group.Members().Voters {
		m, ok := c.gossip.Member(node)
		if node == c.ID() || !ok || m.State != membership.Alive || m.Phase != membership.PhaseRunning {
			continue
		}
		if err := group.Transfer(ctx, node); err == nil {
			return
		}
	}
}
