package node

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// The states of a node towards its group, as its directory records them (datadir.Identity). The id
// of the node never changes, and sessions are bound to that id alone; each life as a replica has a
// replica id of its own (consensus.ReplicaOf).
//
//	free      ClusterID is "". The node forms a group, or asks for one: its gossip says joining, with its replica's id.
//	member    ClusterID is set. The replica of life n runs. Gossip says starting, then running once the Hello is applied.
//	removed   Removed. The group has removed that replica forever: it was silent for too long, or one too many.
//	asking    Asks. The group has not added the replica of life n yet, and the node may be a client meanwhile (asclient.go). Gossip says joining.
//	left      Retired. The node has left for good. The next process on the directory is a new node.
//
//	free    → member   Welcome, from the raft leader, which has added the replica; or the node has formed the group itself
//	free    → asking   Client, from the raft leader: the group has all replicas that it shall have
//	free    → free     Removed: the group added the replica, and removed it before the Welcome arrived. Life n+1
//	free    ← member   the group, which no other node ever joined, yields to another
//	member  → removed  Removed, or the replica has applied its own removal
//	removed → asking   the replica is closed, its data gone: Dir.Drop
//	asking  → member   the replica has caught up, and the Hello is applied
//	asking  → removed  as for a member: the group removed the replica again, or had removed its id before
//	asking  → failed   the group has a replica of the node in as late a life: the directory is a copy
//	member  → left     Leave; or Removed, where the group knows that the node leaves
//
// Each arrow is one write of the identity, so that a process that dies on the way resumes at one end
// of it: Open drops the data of a removed replica, and starts the replica of a node that asks.
// Welcome and Removed name their replica: a message about a former life changes nothing.
//
// A removed member goes on as the same Cluster. Its leases stay valid, and it renews them as a client or
// through the next replica, since removal ends no session; its calls wait. The group withdraws its waiters
// if gossip does not see it, and the calls ask again.

// replica is the id of this node's replica in its present life.
func (f *founder) replica() uint64 {
	id := f.n.dir.Identity()
	return consensus.ReplicaOf(id.NodeID, id.Life)
}

// isOut reports whether the group has removed the present replica.
func (f *founder) isOut() bool { return f.out.Load() == f.replica() }

// removedFrom handles the removal of this node's replica, as the replica itself has applied it.
func (f *founder) removedFrom(group *consensus.Group) {
	departure := fsm.Stays
	group.Read(func(m *fsm.Machine) { departure = m.Departed(f.n.self.Node) })
	f.replicaRemoved(group.Replica(), departure != fsm.Stays)
}

// replicaRemoved handles the removal of a replica of this node; left says that the node had said
// that it leaves.
func (f *founder) replicaRemoved(replica uint64, left bool) {
	if replica != f.replica() {
		return // of a former life
	}
	f.out.Store(replica)
	if f.n.leaving() || f.n.Stopped() != nil {
		return
	}
	if left {
		if err := f.save(f.n.ctx, func(id *datadir.Identity) { id.Retired = true }); err != nil {
			f.n.log.Error("this node has left its group, but could not retire its data directory", "error", err)
		}
		f.n.fail(seam.ErrRemoved)
		return
	}
	select {
	case f.removal <- struct{}{}:
	default:
	}
}

// comeBack begins the node's next life as a replica, and asks the group to add it.
func (f *founder) comeBack(ctx context.Context) error {
	n := f.n
	if n.asClient.hangs.Load() {
		return n.asClient.another(ctx)
	}
	n.log.Warn("the group has removed this node's replica: the node asks for a new one")
	n.Proposer.Retire()
	n.clients.GiveUp()
	if err := f.endLife(); err != nil {
		return err
	}
	n.cfg.Listener.ReplicaReplaced()
	if err := f.nextLife(); err != nil {
		return err
	}
	f.tell(ctx, n.meta(n.firstPhase()))
	if ctx.Err() != nil { // the directory is about to be closed
		return ctx.Err()
	}
	if n.asClient.waits() {
		return nil
	}
	return f.startReplica()
}

// endLife closes the replica of a life that is over. The node's timers forget what it applied.
func (f *founder) endLife() error {
	n := f.n
	f.placed.Store(false)
	if group := n.replica.Load(); group != nil {
		if err := group.Close(); !mayReopen(err) {
			return err
		}
		n.replica.Store(nil)
	}
	observer{n: n}.time(fsm.New())
	return nil
}

// nextLife records durably that the replica of this life is over, drops its data, and begins the
// next life.
func (f *founder) nextLife() error {
	if err := f.save(f.n.ctx, func(id *datadir.Identity) { id.Removed = true }); err != nil {
		return err
	}
	return f.write(f.n.ctx, f.n.dir.Drop)
}

// catchUp returns when the replica of a later life has applied all that was committed when the group
// added it, and opens it to calls. Before that its state is older than what the former replica may
// have shown. The group may have removed the replica while this process was away, and be full since: then it never
// catches up, and the raft leader says that the node may be a client.
//
// It returns false where the replica of a client has failed: the node goes on as a client.
func (f *founder) catchUp(ctx context.Context) (caughtUp bool, err error) {
	n := f.n
	group := n.replica.Load()
	lines := waitLines()
	for attempt := 1; ; attempt++ {
		n.asClient.heed(ctx)
		err := group.Barrier(ctx)
		switch {
		case err == nil && n.asClient.end(): // another replica may have told of more since
			continue
		case err == nil:
			n.openToCalls(group)
			return true, nil
		case errors.Is(err, consensus.ErrRemoved):
			f.removedFrom(group)
		case n.asClient.outlives(err):
			n.asClient.giveUp(ctx, err)
			return false, nil
		case !errors.Is(err, consensus.ErrNotProposed) && !errors.Is(err, consensus.ErrUnknown):
			return false, n.Proposer.Stopped(err)
		}
		if _, ok := lines.Take(time.Now()); ok {
			n.log.Warn("this node has no replica in its group yet", "waits", n.Missing())
		}
		if err := n.Proposer.Pause(ctx, attempt, nil); err != nil {
			return false, err
		}
	}
}

// taken records durably that the group has added the replica of this life.
func (f *founder) taken() error {
	if !f.n.dir.Identity().Asks {
		return nil
	}
	return f.save(f.n.ctx, func(id *datadir.Identity) { id.Asks = false })
}

// share records durably that the group has, or may have, other replicas than its founder's: a shared
// group never yields. It returns false while the group might yield, or if recording fails.
func (f *founder) share() bool {
	if !f.n.dir.Identity().Alone() {
		return true
	}
	if !f.joinTried() || len(f.rivals.asks()) > 0 {
		return false
	}
	if err := f.save(f.n.ctx, func(id *datadir.Identity) { id.Shared = true }); err != nil {
		f.n.log.Warn("recording that another node joins the group failed: no node is added before that succeeds", "error", err)
		return false
	}
	if err := f.n.gossip.ChangeMeta(func(m membership.Meta) membership.Meta { m.Alone = false; return m }); err != nil {
		f.n.log.Debug("updating gossip metadata failed", "error", err)
	}
	return true
}

// yield gives up a group that no other node ever joined: durably first, so that the group never
// serves again wherever the process dies; then its leases end; then its replica and its data go.
// From then on the node only joins.
func (f *founder) yield(ctx context.Context) error {
	n := f.n
	old := n.dir.Identity().ClusterID
	if err := f.save(f.n.ctx, func(id *datadir.Identity) { id.Dropped = true }); err != nil {
		if n.dir.Identity().Shared { // the pilot has shared the group meanwhile
			return nil
		}
		return err
	}
	n.log.Warn("this node's group, which no other node has joined, yields to another of its name: its leases end, and the node joins",
		"group", old, "others", f.rivals.list(), "cluster", n.cfg.Cluster)
	n.Proposer.GiveUp()
	n.clients.GiveUp()
	n.cfg.Listener.GroupYielded()
	if err := f.endLife(); err != nil {
		return err
	}
	if err := f.write(ctx, n.dir.Drop); err != nil {
		return err
	}
	f.joins.Store(true)
	f.tell(ctx, n.meta(n.firstPhase()))
	return nil
}
