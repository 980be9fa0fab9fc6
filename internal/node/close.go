package node

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	giveBackTime  = time.Second           // of Close, to give the leases back
	giveBackPause = 20 * time.Millisecond // between two attempts at that
	drainTime     = giveBackTime / 2

	leavePause   = 20 * time.Millisecond // between two looks of a leaving node at the members of its group
	leaveTime    = time.Minute           // of Leave, whatever its context says
	handOverTime = 5 * time.Second       // of Close, for a voter without a disk
	goodByeTime  = 2 * time.Second       // for the good-bye in gossip when no time is left
)

// Close ends the node, and returns when nothing of it is left: no goroutine, descriptor or port.
// The leases end first, with seam.ErrEnded; the node gives them back if it reaches the group within a
// second. A voter whose directory ends with the process then waits until another replica votes in
// its place, for five seconds at most. Close is idempotent, safe from several goroutines, and
// bounded in time even after a disk failure.
func (n *Node) Close() {
	n.beginShutdown(seam.ErrEnded)
	<-n.gone
}

// fail stops the node for good because of err.
func (n *Node) fail(err error) {
	if errors.Is(err, seam.ErrClosed) {
		err = seam.ErrEnded
	}
	n.beginShutdown(err)
}

// beginShutdown begins the end of the node, unless it has begun; it returns at once.
func (n *Node) beginShutdown(cause error) {
	if n.beginClosing(cause) {
		go n.shutdown(cause)
	}
}

// shutdown ends the node: first the leases, so that no holder acts on them; then all goroutines that
// propose; then what Open took, in the reverse order.
func (n *Node) shutdown(cause error) {
	<-n.opened
	held := n.cfg.Listener.EndLeases(cause)
	close(n.done)
	if errors.Is(cause, seam.ErrEnded) {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
		switch given := n.giveBack(ctx); {
		case given:
			n.handOver()
		case held > 0:
			n.log.Warn("this node closed before the group had its leases back: they end with their TTL", "leases", held)
		}
		cancel()
	}
	n.stop()
	failure, _ := n.Failure()
	if n.unopened { // Open returns it
		failure = nil
	}
	n.cfg.Listener.Stopping(failure)
	reopen := n.release()
	n.running.Wait()
	n.releaseDir(reopen) // the engine may have been starting in it until now
	if n.clients != nil {
		n.clients.Close()
	}
	n.cfg.Listener.Stopped()
	close(n.gone)
}

// giveBack proposes that this process has ended its leases and goes, which frees its locks at once.
// It tries until ctx ends and reports whether nothing is left to give back.
func (n *Node) giveBack(ctx context.Context) bool {
	group, _ := n.Proposer.Current()
	if group == nil { // the node had none yet, or is about to come back as another replica
		return n.asClient.giveBack(ctx) || n.cfg.Listener.Empty()
	}
	return n.giveBackTo(ctx, group)
}

// giveBackTo is giveBack with a replica of this node's own.
func (n *Node) giveBackTo(ctx context.Context, group *consensus.Group) bool {
	if n.given.Load() || n.fleeting && last(group) {
		return true
	}
	departure := n.departure(group)
	if departure == fsm.Stays && n.cfg.Listener.Empty() {
		return true
	}
	if departure == fsm.Leaves { // before the Goodbye: this replica may be removed before it learns that its Goodbye committed
		if err := n.gossip.SetMeta(n.meta(autopilot.PhaseLeaving)); err != nil {
			n.log.Warn("updating gossip metadata failed", "error", err)
		}
	}
	// Later calls get no turn. Those that propose now get their answers before the group takes this
	// process for gone.
	short, cancel := context.WithTimeout(ctx, drainTime)
	n.Proposer.Drain(short)
	cancel()
	cmd := fsm.Encode(fsm.Goodbye{Node: n.self.Node, Incarnation: n.self.Incarnation, Departure: departure})
	for ctx.Err() == nil {
		_, err := group.Propose(ctx, cmd)
		switch {
		case err == nil, n.founder.isOut():
			n.given.Store(true)
			return true
		case !errors.Is(err, consensus.ErrNotProposed) && !errors.Is(err, consensus.ErrUnknown):
			return false
		}
		_ = loop.Sleep(ctx, giveBackPause)
	}
	return false
}

// handOver waits a little until another replica votes in the place of a voter that never comes back.
// Otherwise each of several voters that close one after the other would be a dead voter until its
// removal, and soon the dead would be a majority.
func (n *Node) handOver() {
	group, _ := n.Proposer.Current()
	if group == nil || !n.fleeting || n.leaving() || !n.votes(group) || !n.given.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if _, err := n.waitOut(ctx, group, nil); err != nil {
		n.log.Warn("this node closed before another replica voted in its place", "error", err)
	}
}

// departure says whether the group may expect a later process of this node.
func (n *Node) departure(group *consensus.Group) fsm.Departure {
	switch {
	case n.leaving() && !last(group), n.fleeting && n.votes(group):
		return fsm.Leaves
	case n.fleeting:
		return fsm.Gone
	}
	return fsm.Stays
}

// release closes what open has opened, but for the directory, and reports whether that may be opened again.
func (n *Node) release() (reopen bool) {
	reopen = mayReopen(n.Stopped())
	if group := n.replica.Load(); group != nil {
		err := group.Close()
		reopen = reopen && mayReopen(err)
		n.logClose("raft group", err)
	}
	if n.gossip != nil {
		n.logClose("gossip", n.gossip.Close())
	}
	if n.endpoint != nil {
		n.logClose("port", n.endpoint.Close())
	}
	return reopen
}

// releaseDir closes the directory, unless it is to stay locked until this process ends.
func (n *Node) releaseDir(reopen bool) {
	if n.dir == nil || !reopen || n.founder.abandoned.Load() {
		return
	}
	end, ok := n.founder.quiet()
	if !ok {
		n.logClose("data directory", errDiskHangs) // it stays locked until this process ends
		return
	}
	n.logClose("data directory", n.dir.Close())
	end()
}

func (n *Node) logClose(what string, err error) {
	if err != nil {
		n.log.Warn("closing a part of this node failed", "what", what, "error", err)
	}
}

// Leave ends the node for good, and closes it: it gives the leases back, waits until the group has
// removed the replica, or no replica stays that could, and says good-bye in gossip. It takes a
// minute at most. The node closes also if ctx ends first. A second call, or one after Close, returns
// seam.ErrEnded.
func (n *Node) Leave(ctx context.Context) error {
	if err := n.BeginLeave(); err != nil {
		return err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	n.cfg.Listener.EndLeases(seam.ErrEnded)
	err := n.retireClient(ctx)
	if err == nil {
		n.giveBack(ctx)
		err = n.depart(ctx)
	}
	if ctx.Err() != nil { // the other members must learn of it all the same
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), goodByeTime)
		defer cancel()
	}
	if e := n.gossip.Leave(ctx); err == nil {
		err = e
	}
	return err
}

// retireClient retires the directory of a node without a replica before the group hears its good-bye, which is
// for good: a process that died in between could never serve again, as the group takes it for a copy.
func (n *Node) retireClient(ctx context.Context) error {
	if group, _ := n.Proposer.Current(); group != nil || !n.dir.Identity().Asks {
		return nil
	}
	return n.founder.save(ctx, func(id *datadir.Identity) { id.Retired = true })
}

// depart waits until the group, which knows that this node leaves, has removed its replica.
func (n *Node) depart(ctx context.Context) error {
	group, _ := n.Proposer.Current()
	if id := n.dir.Identity(); group == nil && (id.Removed || id.Asks) { // the node was about to come back
		return n.founder.save(ctx, func(id *datadir.Identity) { id.Retired = true })
	}
	if group == nil || last(group) {
		return nil
	}
	out, err := n.waitOut(ctx, group, n.closing)
	if err == nil && out {
		err = n.founder.save(ctx, func(id *datadir.Identity) { id.Retired = true })
	}
	return err
}

// waitOut waits until the group has removed this node's replica, or no replica stays that could; out
// says which.
func (n *Node) waitOut(ctx context.Context, group *consensus.Group, closing <-chan struct{}) (out bool, err error) {
	ticker := time.NewTicker(leavePause)
	defer ticker.Stop()
	for n.member(group) {
		group.Yield(n.yields(group))
		pause := ticker.C
		alone := !n.othersStay(group)
		if alone { // the other leaving nodes look for it, too: a majority must stay until all have seen it
			pause = time.After(2 * n.cfg.Election)
		}
		select {
		case <-pause:
		case <-ctx.Done():
			return false, unreached(ctx)
		case <-closing:
			return false, n.Stopped()
		}
		if alone && !n.othersStay(group) { // one may have come meanwhile: a client that the node had not heard of
			return !n.member(group), nil // the group may have removed it meanwhile
		}
	}
	return true, nil
}

// yields reports whether only one voter besides this leaving one is left, and stays.
func (n *Node) yields(group *consensus.Group) bool {
	members := group.Members()
	if len(members.Voters) != 2 || !members.Votes(n.ID()) {
		return false
	}
	for node, departure := range departed(group, members) {
		if node != n.ID() && members.Votes(node) {
			return departure == fsm.Stays
		}
	}
	return false
}

// othersStay reports whether a replica besides this one stays in the group, as far as applied here, or a
// client is there that the raft leader gives one.
func (n *Node) othersStay(group *consensus.Group) bool {
	members := group.Members()
	for node, departure := range departed(group, members) {
		if node != n.ID() && departure == fsm.Stays {
			return true
		}
	}
	return members.Change == 0 || len(n.clientsHere()) > 0
}

// last reports whether this is the only replica of its group, as far as applied here.
func last(group *consensus.Group) bool {
	members := group.Members()
	return members.Change != 0 && len(members.Voters)+len(members.Standbys) == 1
}

// member reports whether the group still has this node's replica.
func (n *Node) member(group *consensus.Group) bool {
	if n.founder.isOut() || group.Replica() != n.founder.replica() { // now, or in a former life
		return false
	}
	members := group.Members()
	if members.Change == 0 {
		return !errors.Is(group.Barrier(n.ctx), consensus.ErrRemoved) // the engine has dropped a removed replica
	}
	return members.Includes(group.Replica())
}

// isRefused reports whether a replica ended because others know of a later process or life of its
// node, or know less than it.
func isRefused(err error) bool {
	return errors.Is(err, consensus.ErrSuperseded) || errors.Is(err, consensus.ErrForgetful) || errors.Is(err, consensus.ErrAhead)
}

// mayReopen reports whether a later node of this process may open the directory of a node that ended
// with err. An engine that has failed keeps files open for as long as the process lives.
func mayReopen(err error) bool {
	var failed *consensus.FailedError
	if errors.As(err, &failed) {
		return isRefused(err)
	}
	return !errors.Is(err, consensus.ErrAbandoned)
}
