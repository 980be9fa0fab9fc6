package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	tryBytes  = 4 << 20          // that a disk must take before a client starts a replica on it
	tryTime   = 5 * time.Second  // for that
	hungTime  = waitTold         // of a write, after which a client says that its disk hangs
	unfitTime = time.Minute      // for which a client takes no replica, before it tries its disk again
	unfitLine = 10 * time.Minute // has one line of the log about it
	lookAtFit = time.Second      // between two looks of a client at its disk
)

// fitness says whether a client may be given a replica. A disk that is full or hangs ends a node whose replica
// stands on it, and a client stands on another node's: it refuses its own, and lives. Gossip says so, for as long
// as the raft leader is to choose another node.
type fitness struct {
	unfit atomic.Bool // as gossip says
	rests atomic.Bool // the last attempt failed, and the disk was not found well since

	// Of the goroutine of runMembership.
	until time.Time // when the disk is tried again
	lines sparse.Lines
}

// outlives reports whether a client goes on without its own replica, which has failed with err. The group
// refuses one that runs on a copy of its directory or is of a former version, and its node with it.
func (a *asClient) outlives(err error) bool {
	var failed *consensus.FailedError
	return a.hangs.Load() && a.n.ctx.Err() == nil && errors.As(err, &failed) && !isRefused(err) && !errors.Is(err, consensus.ErrUnsupported)
}

// start starts the replica that the group has added. It returns false where the node goes on as a client.
func (a *asClient) start(ctx context.Context) (runs bool, err error) {
	n := a.n
	if !a.hangs.Load() { // it has nothing to lose
		return true, n.founder.startReplica()
	}
	if a.resting() {
		return false, nil
	}
	if err = a.tryDisk(ctx); err == nil {
		err = n.founder.startReplica()
	}
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case isRefused(err), errors.Is(err, consensus.ErrUnsupported):
		return false, err
	}
	a.giveUp(ctx, err)
	return false, nil
}

// resting reports whether the node takes no replica now, whatever its disk does.
func (a *asClient) resting() bool { return a.rests.Load() || a.n.founder.abandoned.Load() }

// giveUp has the node go on as a client without the replica that it was given.
func (a *asClient) giveUp(ctx context.Context, cause error) {
	if err := a.closeReplica(); err != nil {
		a.n.logClose("raft group", err)
	}
	a.rest(ctx, cause)
}

// closeReplica closes a replica that has not caught up, if there is one.
func (a *asClient) closeReplica() error {
	n := a.n
	group := n.replica.Swap(nil)
	if group == nil {
		return nil
	}
	err := group.Close()
	if !mayReopen(err) || group.Failure() != nil {
		n.founder.abandoned.Store(true)
	}
	observer{n: n}.time(fsm.New())
	return err
}

// rest has the node take no replica before its disk was found well again, which it tries after unfitTime. An
// engine that has failed keeps its files open: the next one is for the next process.
func (a *asClient) rest(ctx context.Context, cause error) {
	a.rests.Store(true)
	a.until = time.Now().Add(unfitTime)
	if unreported, ok := a.lines.Take(time.Now()); ok {
		again := "after " + unfitTime.String()
		if a.n.founder.abandoned.Load() {
			again = "with the next process"
		}
		a.n.log.Error("this client takes no replica, as it cannot start one: it goes on as a client", "error", cause, "tries again", again,
			"unreported", unreported)
	}
	a.say(ctx, true)
}

// retry tries the disk of a client that rests, when it is time.
func (a *asClient) retry(ctx context.Context) {
	if !a.rests.Load() || a.n.founder.abandoned.Load() || time.Now().Before(a.until) {
		return
	}
	if err := a.tryDisk(ctx); err != nil {
		a.rest(ctx, err)
		return
	}
	a.rests.Store(false) // watchDisk has gossip say so
}

// another begins the next life of a replica that the group has removed before it had caught up. The node
// is a client all the while.
func (a *asClient) another(ctx context.Context) error {
	n := a.n
	if n.founder.abandoned.Load() {
		return nil
	}
	err := a.closeReplica()
	if err == nil {
		err = n.founder.nextLife()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.rest(ctx, err)
	default:
		n.cfg.Listener.ReplicaReplaced()
		n.founder.tell(ctx, n.meta(autopilot.PhaseJoining))
	}
	return nil
}

// tryDisk reports whether the disk takes what a replica writes at its start.
func (a *asClient) tryDisk(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	dir := a.n.dir
	return a.n.founder.write(ctx, func() error {
		if err := tryWrite(dir.FS(), dir.RaftDir()+".try"); err != nil {
			return fmt.Errorf("holdfast: trying the disk of the data directory: %w", err)
		}
		return nil
	})
}

// tryWrite writes a file of tryBytes, durably, and removes it.
func tryWrite(fs vfs.FS, name string) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	piece := make([]byte, tryBytes/64)
	for range tryBytes / len(piece) {
		if _, err = f.Write(piece); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), fs.Remove(name))
}

// watchDisk keeps what gossip says of the disk of a client true, until ctx ends: a write that hangs may hold up
// the goroutine of runMembership.
func (a *asClient) watchDisk(ctx context.Context) {
	ticker := time.NewTicker(lookAtFit)
	defer ticker.Stop()
	var hung time.Time
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if a.n.hangsOnDisk() {
			hung = time.Now()
		}
		if unfit := a.resting() || !hung.IsZero() && time.Since(hung) < unfitTime; unfit != a.unfit.Load() {
			a.say(ctx, unfit)
		}
	}
}

// hangsOnDisk reports whether a write to the directory, or of the log of a replica, takes too long.
func (n *Node) hangsOnDisk() bool {
	if began := n.founder.disk.began.Load(); began != nil && time.Since(*began) >= hungTime {
		return true
	}
	group := n.replica.Load()
	return group != nil && group.Signs().Writing >= hungTime
}

// say has gossip say whether the node is fit.
func (a *asClient) say(ctx context.Context, unfit bool) {
	a.unfit.Store(unfit)
	err := a.n.gossip.ChangeMeta(func(m membership.Meta) membership.Meta { m.Unfit = unfit; return m })
	if err != nil && ctx.Err() == nil {
		a.n.log.Warn("updating gossip metadata failed", "error", err)
	}
}
