package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

const (
	leavePause   = 20 * time.Millisecond // how often a leaving node looks whether it is out
	leaveTime    = time.Minute           // of Leave, whatever its context says
	handOverTime = 5 * time.Second       // of Close, for a voter without a disk
	goodByeTime  = 2 * time.Second       // for saying good-bye when there is no time left
)

// Leave is the planned departure of a node that does not come back. It gives the leases back, hands
// raft leadership over, waits until the group has removed this node's replica (and promoted another
// in its place if there is one), says good-bye to the gossip, and closes. Whoever opens the data
// directory next is a new node. Any number of nodes may leave at once; the group lets them go one
// by one. If none stays, all only close and keep their data: started again, they go on as the group
// that they were.
//
// It takes a second or two where a majority answers, and a minute at most. Where all leave, and
// another replica died a moment before, it takes until that one is given up (Config.ReplaceAfter).
//
// If ctx or the minute ends first, the node is closed all the same, and the group removes it when
// it can. The error is then that of the context, and ErrNoQuorum for a deadline. A second call, or
// one after Close, returns ErrClosed.
func (c *Cluster) Leave(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	if err := c.leave(); err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
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

// depart gets this node's replica out of the group, which knows that it leaves.
func (c *Cluster) depart(ctx context.Context) error {
	group, _ := c.proposer.Current()
	if id := c.dir.Identity(); group == nil && (id.Removed || id.Asks) { // it was about to come back
		return c.founder.save(func(id *datadir.Identity) { id.Retired = true })
	}
	if group == nil || last(group) {
		return nil
	}
	switch out, err := c.waitOut(ctx, group, c.closing); {
	case err != nil:
		return err
	case out:
		return c.founder.save(func(id *datadir.Identity) { id.Retired = true })
	}
	return nil
}

// waitOut waits until the group has removed this node's replica, or nobody stays who could; out
// says which.
func (c *Cluster) waitOut(ctx context.Context, group *consensus.Group, closing <-chan struct{}) (out bool, err error) {
	ticker := time.NewTicker(leavePause)
	defer ticker.Stop()
	pause := ticker.C
	for c.member(group) {
		alone := !c.othersStay(group)
		if alone { // they look for it, too: a majority must stay until all have seen it
			pause = time.After(2 * c.cfg.Timing.Election)
		}
		select {
		case <-pause:
		case <-ctx.Done():
			return false, c.unreached(ctx)
		case <-closing:
			return false, c.stopped()
		}
		if alone {
			return !c.member(group), nil // it may have been let go meanwhile
		}
	}
	return true, nil
}

// othersStay reports whether a replica besides this one stays in the group, as far as applied here.
func (c *Cluster) othersStay(group *consensus.Group) bool {
	members := group.Members()
	for node, departure := range departed(group, members) {
		if node != c.ID() && departure == fsm.Stays {
			return true
		}
	}
	return members.Change == 0
}

// last reports whether this is the only replica of its group, as far as applied here.
func last(group *consensus.Group) bool {
	members := group.Members()
	return members.Change != 0 && len(members.Voters)+len(members.Standbys) == 1
}

// member reports whether the group still has this node's replica.
func (c *Cluster) member(group *consensus.Group) bool {
	if c.founder.isOut() || group.Replica() != c.founder.replica() { // now, or in a former life
		return false
	}
	members := group.Members()
	if members.Change == 0 {
		return !errors.Is(group.Barrier(c.ctx), consensus.ErrRemoved) // the engine has dropped a removed replica
	}
	return members.Includes(group.Replica())
}
