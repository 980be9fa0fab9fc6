package consensus

import (
	"context"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4"
)

// Transfer hands raft leadership to another voter and returns when this replica has heard that it
// has it. It asks again until ctx or one attempt ends: the raft leader gives a transfer up after an
// election timeout, during which it takes no commands, and a voter that is behind does not take
// over.
//
// Errors: ErrNotProposed (no such voter), ErrUnknown, ErrClosed, ErrRemoved, a *FailedError.
func (g *Group) Transfer(ctx context.Context, node string) error {
	members := g.Members()
	replica, _ := members.Replica(node)
	if members.Voters[replica] == "" {
		return fmt.Errorf("%w: %w: node %q is no voter", ErrNotProposed, ErrInvalid, node)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.attempt())
	defer cancel()
	for {
		done, err := g.transfer(ctx, replica)
		if done || err != nil {
			return err
		}
	}
}

// transfer asks once, and waits until it is done or the raft leader must have given up.
func (g *Group) transfer(ctx context.Context, replica uint64) (done bool, err error) {
	leader, changed := g.leaders.now()
	if leader.replica == replica {
		return true, nil
	}
	err = g.call(func(host *dragonboat.NodeHost) error { return host.RequestLeaderTransfer(shard, replica) })
	if err != nil {
		return false, g.definite(err)
	}
	patience := time.NewTimer(g.cfg.Election + 2*g.cfg.Tick)
	defer patience.Stop()
	for leader.replica != replica {
		select {
		case <-changed:
		case <-patience.C:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("%w: transfer: %w", ErrUnknown, ctx.Err())
		case <-g.failed:
			return false, g.Failure()
		}
		leader, changed = g.leaders.now()
	}
	return true, nil
}

// handOver gives raft leadership to any other voter, before Close: otherwise the group would wait
// an election timeout for a new raft leader. A raft leader that does not reach a majority has
// nothing to give.
//
// Afterwards it stays for two heartbeats, until the others know the new raft leader: what they
// still send here is passed on.
func (g *Group) handOver() {
	if !g.IsRaftLeader() || len(g.Members().Voters) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(g.cfg.Election, closeWithin/4))
	defer cancel()
	if g.Barrier(ctx) != nil {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), min(4*g.cfg.Election, closeWithin/2))
	defer cancel()
	for ctx.Err() == nil && g.IsRaftLeader() {
		for replica := range g.Members().Voters {
			if replica == g.cfg.Replica || !g.IsRaftLeader() {
				continue
			}
			if _, err := g.transfer(ctx, replica); err != nil {
				cancel()
			}
		}
	}
	heard := time.NewTimer(2 * g.cfg.Heartbeat)
	defer heard.Stop()
	select {
	case <-heard.C:
	case <-g.failed:
	}
}
