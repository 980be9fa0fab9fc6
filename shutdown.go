package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	giveBackTime = time.Second // how long Close tries to give the leases back
	drainTime    = giveBackTime / 2
	hookTime     = time.Second // how long Close waits for a hook of the user's that is running
)

// Close stops the node: its leases end at once with ErrLost and ErrClosed, and are given back to
// the group if it can be reached within a second. A node without a data directory never comes back:
// if its replica votes, Close then waits until the group has let it go and another votes in its
// place, for five seconds at most. Close returns nil when nothing of the node is left: no
// goroutine, descriptor or port. It is idempotent, safe at any time and from several goroutines,
// and bounded in time even after a disk failure.
func (c *Cluster) Close() error {
	c.shut(ErrClosed)
	<-c.gone
	return nil
}

// fail stops the node for good because of err.
func (c *Cluster) fail(err error) {
	if c.shut(err) {
		c.log.Error("the node has stopped serving", "error", err)
	}
}

// shut begins the end of the node, once; it returns at once and reports whether this call began it.
func (c *Cluster) shut(cause error) bool {
	if !c.beginClosing(cause) {
		return false
	}
	go c.shutdown(cause)
	return true
}

// shutdown ends the node: first the leases, so that nobody acts on them; then everything that could
// still propose; then what it stands on, in the reverse order of open.
func (c *Cluster) shutdown(cause error) {
	<-c.opened
	held, _ := c.keeper.table.Counts()
	c.keeper.loseAll(cause)
	c.leasesOver()
	if errors.Is(cause, ErrClosed) {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
		switch given := c.giveBack(ctx); {
		case given:
			c.handOver()
		case held > 0:
			c.log.Warn("closed without giving the leases back: they end with their TTL", "leases", held)
		}
		cancel()
	}
	c.stop()
	failure, _ := c.isClosing()
	c.hooks.end(failure)
	c.release()
	c.wait()
	c.allOver()
}

// giveBack tells the group that this process has ended its leases and goes, which frees its locks
// at once. It tries until ctx ends and reports whether nothing is left to give back.
func (c *Cluster) giveBack(ctx context.Context) bool {
	group, _ := c.proposer.Current()
	if group == nil { // there was none yet, or this node is about to come back as another replica
		return c.keeper.table.Empty()
	}
	if c.given.Load() || c.fleeting && last(group) {
		return true
	}
	departure := c.departure(group)
	if departure == fsm.Stays && c.keeper.table.Empty() {
		return true
	}
	if departure == fsm.Leaves { // first: it may be out before it hears that it has said so, and is told by who sees this
		if err := c.gossip.SetMeta(c.meta(membership.PhaseLeaving)); err != nil {
			c.log.Warn("telling the others that this node leaves", "error", err)
		}
	}
	c.drain(ctx)
	cmd := fsm.Encode(fsm.Goodbye{Node: c.self.Node, Incarnation: c.self.Incarnation, Departure: departure})
	for ctx.Err() == nil {
		_, err := group.Propose(ctx, cmd)
		switch {
		case err == nil, c.founder.isOut():
			c.given.Store(true)
			return true
		case !errors.Is(err, consensus.ErrNotProposed) && !errors.Is(err, consensus.ErrUnknown):
			return false
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}

// handOver waits a little until another votes in the place of a voter that never comes back. Of
// several that are closed one after the other, each would otherwise be a dead voter until it is
// removed, and soon the dead are a majority.
func (c *Cluster) handOver() {
	group, _ := c.proposer.Current()
	if group == nil || !c.fleeting || c.leaving() || !c.votes(group) || !c.given.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if _, err := c.waitOut(ctx, group, nil); err != nil {
		c.log.Warn("closed before another voter had taken over", "error", err)
	}
}

// departure is whether the group may expect a later process of this node.
func (c *Cluster) departure(group *consensus.Group) fsm.Departure {
	switch {
	case c.leaving() && !last(group), c.fleeting && c.votes(group):
		return fsm.Leaves
	case c.fleeting:
		return fsm.Gone
	}
	return fsm.Stays
}

// drain waits until the calls that are proposing have their answers, so that none of them meets a
// group that takes this process for gone; the later ones are refused, as their turn never comes.
func (c *Cluster) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	c.proposer.Drain(ctx)
}

// release closes what open has opened.
func (c *Cluster) release() {
	reopen := mayReopen(c.stopped())
	if group := c.replica.Load(); group != nil {
		err := group.Close()
		reopen = reopen && mayReopen(err)
		c.logClose("raft group", err)
	}
	if c.gossip != nil {
		c.logClose("gossip", c.gossip.Close())
	}
	if c.endpoint != nil {
		c.logClose("port", c.endpoint.Close())
	}
	if c.dir != nil && reopen {
		c.logClose("data directory", c.dir.Close())
	}
}

func (c *Cluster) logClose(what string, err error) {
	if err != nil {
		c.log.Warn("closing", "what", what, "error", err)
	}
}

// wait returns when the node's goroutines have ended. Only a hook of the user's that does not
// return is left behind.
func (c *Cluster) wait() {
	c.running.Wait()
	select {
	case <-c.hooks.ended:
	case <-time.After(hookTime):
		c.log.Warn("closed while an event hook is still running")
	}
}
