package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

// What a node is to its group, and what its directory says (datadir.Identity). The node's id is the
// same throughout, and its sessions know nothing of it; each life as a replica has a replica id of
// its own (consensus.ReplicaOf).
//
//	free      ClusterID is "". It forms a group, or asks for one: its gossip says joining, with its replica's id.
//	member    ClusterID is set. The replica of life n runs. Gossip says starting, then running once the group has carried
//	          out the node's Hello.
//	removed   Removed. The group has removed that replica, for ever: it was silent for too long.
//	asking    Asks. The node is in life n+1, with an empty replica that waits to be taken in. Gossip says joining.
//	left      Retired. It has said that it leaves for good. Whoever opens the directory next is a new node.
//
//	free    → member   Welcome, from the raft leader, which has added the replica; or it has formed the group itself
//	free    → free     Removed: the replica was added, and removed before the node heard so. Life n+1
//	free    ← member   its group, which nobody else ever joined, yields to another (yield.go)
//	member  → removed  Removed, or its own replica has applied the removal
//	removed → asking   the replica is closed, its data gone: Dir.Drop
//	asking  → member   the replica has caught up, and the Hello was carried out
//	asking  → removed  as member: it was taken in and removed again, or its id is one that the group had removed
//	asking  → failed   the group has a replica of the node in as late a life: the directory is a copy of its node's
//	member  → left     Leave; or Removed, where the group knows that the node has said that it leaves
//
// Each arrow is one write of the identity, so that a process that dies on the way goes on from one
// end of it: Open drops the data of what was removed, and starts the replica of one that asks.
// Welcome and Removed name the replica that they are about: what is said of a former life is late,
// and changes nothing.
//
// A member that is removed goes on as the same Cluster. Its leases are valid as
// long as they were, and are renewed through the next replica, since removal ends no session; its
// calls wait. What it waited for in queues the group withdraws meanwhile, and the calls ask again.

// errOut ends the service of a replica that the group has removed.
var errOut = errors.New("holdfast: the replica was removed")

// replica is the id of this node's replica in its present life.
func (f *founder) replica() uint64 {
	id := f.c.dir.Identity()
	return consensus.ReplicaOf(id.NodeID, id.Life)
}

// isOut reports whether the group has removed the present replica.
func (f *founder) isOut() bool { return f.out.Load() == f.replica() }

// removedFrom takes the word of this node's own replica that the group has removed it.
func (f *founder) removedFrom(group *consensus.Group) {
	departure := fsm.Stays
	group.Read(func(m *fsm.Machine) { departure = m.Departed(f.c.self.Node) })
	f.replicaRemoved(group.Replica(), departure != fsm.Stays)
}

// replicaRemoved takes the news that the group has removed a replica of this node; left says that
// the node had said that it leaves.
func (f *founder) replicaRemoved(replica uint64, left bool) {
	if replica != f.replica() {
		return // in a former life
	}
	f.out.Store(replica)
	if f.c.leaving() || f.c.stopped() != nil {
		return
	}
	if left {
		if err := f.save(func(id *datadir.Identity) { id.Retired = true }); err != nil {
			f.c.log.Error("the removed node could not retire its directory", "error", err)
		}
		f.c.fail(ErrRemoved)
		return
	}
	select {
	case f.removal <- struct{}{}:
	default:
	}
}

// comeBack begins the node's next life as a replica, and asks the group to take it in.
func (f *founder) comeBack(ctx context.Context) error {
	c := f.c
	c.log.Warn("the group has removed this node's replica, which it had not heard for long: the node asks to be a replica again")
	c.proposer.Retire()
	f.placed.Store(false)
	if err := c.unadopt(); err != nil {
		return err
	}
	applyListener{c: c}.forget()
	c.keeper.table.UnshareAll()
	if err := f.nextLife(); err != nil {
		return err
	}
	f.tell(ctx, c.meta(c.firstPhase()))
	if ctx.Err() != nil { // the directory is about to be closed
		return ctx.Err()
	}
	return f.startReplica()
}

// nextLife notes durably that the replica of this life is over, drops its data, and begins the
// next.
func (f *founder) nextLife() error {
	if err := f.save(func(id *datadir.Identity) { id.Removed = true }); err != nil {
		return err
	}
	f.saving.Lock()
	defer f.saving.Unlock()
	return f.c.dir.Drop()
}

// catchUp returns when the replica of a later life has all that was committed when the group took
// it in, and lets everybody to it. Before that its state is older than what the former one may have
// shown.
func (f *founder) catchUp(ctx context.Context) error {
	c := f.c
	group := c.replica.Load()
	told := c.clock.Now()
	for n := 1; ; n++ {
		err := group.Barrier(ctx)
		switch {
		case err == nil:
			c.proposer.Start(group)
			return nil
		case errors.Is(err, consensus.ErrRemoved):
			f.removedFrom(group)
		case !errors.Is(err, consensus.ErrNotProposed) && !errors.Is(err, consensus.ErrUnknown):
			return c.apiError(c.proposer.Stopped(err))
		}
		if now := c.clock.Now(); time.Duration(now-told) >= waitTold {
			told = now
			c.log.Warn("this node is no replica of its group yet", "waits", f.missing())
		}
		if err := c.pause(ctx, n, nil); err != nil {
			return err
		}
	}
}

// taken notes durably that the group has taken the replica of this life in.
func (f *founder) taken() error {
	if !f.c.dir.Identity().Asks {
		return nil
	}
	return f.save(func(id *datadir.Identity) { id.Asks = false })
}
