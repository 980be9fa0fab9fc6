package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// runMembership brings the node into a group and keeps it there: into another group if the first
// yields, and as another replica if the group removes the first.
func (n *Node) runMembership(ctx context.Context) {
	background := sync.OnceFunc(n.startBackground)
	for ctx.Err() == nil {
		var err error
		if n.dir.Identity().ClusterID == "" {
			err = n.founder.form(ctx)
		}
		if err == nil {
			err = n.founder.rivals.watch(ctx, func(ctx context.Context) error { return n.serveGroup(ctx, background) })
		}
		switch {
		case errors.Is(err, seam.ErrYielded):
			err = n.founder.yield(ctx)
		case errors.Is(err, errOut):
			err = n.founder.comeBack(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.fail(err)
			return
		}
	}
}

// startBackground starts the work that goes on over all groups.
func (n *Node) startBackground() {
	n.Go(n.timekeeper.Run)
	n.Go(n.pilot.Run)
	n.Go(n.raise)
}

// serveGroup begins one life of the node in a group. It returns nil when the node serves, the error of ctx,
// or the error that ends the node. It calls background as soon as the node may serve the group.
func (n *Node) serveGroup(ctx context.Context, background func()) error {
	if err := n.founder.begin(ctx); err != nil {
		return err
	}
	background()
	if err := n.raiseTTL(ctx); err != nil {
		return err
	}
	if err := n.Hello(ctx); err != nil {
		return err
	}
	if err := n.founder.taken(); err != nil {
		return err
	}
	n.Proposer.Greet()
	n.founder.tell(ctx, n.meta(autopilot.PhaseRunning))
	return nil
}

// raiseTTL raises the group's bound on TTLs to Config.MaxTTL. It comes before the Hello: the group
// grants this process no lock before that.
func (n *Node) raiseTTL(ctx context.Context) error {
	bound := time.Duration(0)
	if group := n.replica.Load(); group != nil { // a state that is behind has a lower bound, or the same
		group.Read(func(m *fsm.Machine) { bound = m.Info().MaxTTL })
	}
	if bound >= n.cfg.MaxTTL {
		return nil
	}
	out, err := n.insist(ctx, fsm.RaiseTTL{TTL: n.cfg.MaxTTL.Truncate(time.Millisecond)})
	if err == nil && out.Code != fsm.CodeOK {
		return &seam.RefusedError{Outcome: out}
	}
	return err
}

// Hello makes this process known to the group. The leases of an earlier process of this node end at
// once if that process is proved dead, and else with their TTL.
func (n *Node) Hello(ctx context.Context) error {
	out, err := n.insist(ctx, fsm.Hello{
		Node: n.self.Node, Incarnation: n.self.Incarnation, Name: n.cfg.Name, Place: n.dir.Place(), Level: n.knows(),
	})
	switch {
	case err != nil:
		return err
	case out.Code == fsm.CodeOK:
		return nil
	case out.Code == fsm.CodeStaleIncarnation && n.leaving():
		select { // the group applied this node's own Goodbye first: Leave ends the node
		case <-ctx.Done():
			return ctx.Err()
		case <-n.closing:
			return n.Stopped()
		}
	case out.Code == fsm.CodeStaleIncarnation:
		err := fmt.Errorf("%w: another process runs or ran later as node %s: its data directory was copied or restored; "+
			"delete this directory, and the node comes back as a new one; unless a majority of the voters is told this: "+
			"then delete none, and recover the group from the newest", seam.ErrIncompatible, n.ID())
		n.fail(err)
		return err
	}
	if out.Code == fsm.CodeTooOld {
		if err := n.older(n.ClusterID()); err != nil {
			return err
		}
	}
	return &seam.RefusedError{Outcome: out}
}

// adopt makes group the node's replica, unless the node is closing.
func (n *Node) adopt(group *consensus.Group) bool {
	if !n.unlessStopping(func() { n.replica.Store(group) }) {
		return false
	}
	if !n.dir.Identity().Asks { // see catchUp
		n.openToCalls(group) // outside: the follower may start goroutines
	}
	return true
}

// openToCalls lets calls through to the replica. One that caught up may have heard of its raft leader
// before, and hears nothing new for days.
func (n *Node) openToCalls(group *consensus.Group) {
	n.Proposer.Start(group)
	n.tellLeader()
}
