package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// share notes durably that the group has, or may have, other replicas than its founder's: it is
// never given up then. It returns false as long as the group is about to be.
func (f *founder) share() bool {
	if !f.c.dir.Identity().Alone() {
		return true
	}
	select {
	case <-f.c.gossip.Tried():
	default:
		return false
	}
	if len(f.rivals.asks()) > 0 {
		return false
	}
	if err := f.save(func(id *datadir.Identity) { id.Shared = true }); err != nil {
		f.c.log.Warn("taking the first other node into the group", "error", err)
		return false
	}
	if err := f.c.gossip.ChangeMeta(func(m membership.Meta) membership.Meta { m.Alone = false; return m }); err != nil {
		f.c.log.Debug("telling the others about this node", "error", err)
	}
	return true
}

// yield gives up the group that nobody but this node ever joined: durably first, so that it never
// serves again wherever the process dies; then its leases end; then its replica and its data go.
// The node is then one that joins.
func (f *founder) yield(ctx context.Context) error {
	c := f.c
	old := c.dir.Identity().ClusterID
	if err := f.save(func(id *datadir.Identity) { id.Dropped = true }); err != nil {
		if c.dir.Identity().Shared { // the pilot was quicker
			return nil
		}
		return err
	}
	c.log.Warn("this node's group, which nobody else has joined, yields to another of its name: its leases end, and the node joins",
		"group", old, "others", f.rivals.list(), "cluster", c.cfg.Cluster)
	c.proposer.GiveUp()
	f.placed.Store(false)
	c.keeper.table.Forsake(ErrYielded)
	if err := c.unadopt(); err != nil {
		return err
	}
	applyListener{c: c}.forget()
	c.told.Store(0) // the other group counts its commands for itself
	if err := c.dir.Drop(); err != nil {
		return err
	}
	f.joins = true
	f.tell(ctx, c.meta(c.firstPhase()))
	return nil
}

// unadopt closes the replica: the group is given up, or has removed it.
func (c *Cluster) unadopt() error {
	group := c.replica.Load()
	if group == nil {
		return nil
	}
	if err := group.Close(); !mayReopen(err) {
		return err
	}
	c.replica.Store(nil)
	return nil
}

// forget leaves nothing of a replica that is over to those who watch what is applied.
func (l applyListener) forget() { l.time(fsm.New()) }
