package workload

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	slowMax   = 45 * time.Second // for which a slow watcher looks away
	slowAfter = 500              // entries of the log
	readPause = 200 * time.Millisecond
	settleMax = 10 * time.Second // until a watcher knows what a read tells, when nothing happens any more
)

// watcher is who watches locks from a node. It keeps account of them, as a user would: it reads the
// state at the beginning and where events are missing.
type watcher struct {
	n       *Node
	prefix  string
	slow    time.Duration // it looks away for so long, now and then
	account *account

	away uint64    // the index at which a slow one looked away last
	back time.Time // when it looked again: what came meanwhile is told first
}

// watch watches until ctx or the process ends, or an error.
func (x *watcher) watch(ctx context.Context, c *holdfast.Cluster) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n, e := x.n, x.n.call(history.Watching, x.prefix)
	e.Pause = x.slow
	events := c.Watch(ctx, x.prefix)
	n.add(e) // what happens after the call is told
	defer func() {
		e.Kind = history.Unheard
		n.add(e)
	}()
	if !x.read(ctx, c) {
		return
	}
	for seen, err := range events {
		if err != nil {
			n.Understand(c, "watching", err)
			return
		}
		n.add(x.told(e.Op, seen))
		if seen.Kind == holdfast.EventForced && seen.Reason != Reason {
			n.wrong("a lock was freed by force, and the reason told is %q", seen.Reason)
		}
		if seen.Kind != holdfast.EventResync {
			x.account.apply(seen)
		} else if !x.read(ctx, c) {
			return
		}
		x.look(ctx, seen.Index)
	}
}

// told is the event of a change.
func (x *watcher) told(op uint64, seen holdfast.Event) history.Event {
	e := x.n.event(history.Told, seen.Name)
	e.Op, e.Index, e.Change, e.Cause = op, seen.Index, seen.Kind.String(), seen.Reason
	e.Token, e.Of = uint64(seen.Holder.Token), x.n.opOf(seen.Holder)
	if seen.Kind == holdfast.EventValue {
		e.Value = valueOf(seen.Holder.Value)
	}
	return e
}

// look has a slow watcher look away, when it has seen enough.
func (x *watcher) look(ctx context.Context, index uint64) {
	if x.slow == 0 || index < x.away+slowAfter || time.Since(x.back) <= x.slow {
		return
	}
	x.away = index
	select {
	case <-time.After(x.slow):
	case <-ctx.Done():
	}
	x.back = time.Now()
}

// read puts the account on what a read tells. What is told afterwards may be older: it comes to the
// same in the end. false: the group does not answer.
func (x *watcher) read(ctx context.Context, c *holdfast.Cluster) bool {
	for ctx.Err() == nil && c.Err() == nil {
		if infos, err := x.n.list(c, x.prefix); err == nil {
			x.account.set(infos)
			return true
		}
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
		}
	}
	return false
}

// Settle demands that what the node's watcher was told comes to what a read tells, when nothing
// happens any more. It reports whether that is so, or complains.
func (n *Node) Settle() bool {
	var differs string
	for end := n.record.Now() + settleMax; n.record.Now() < end; time.Sleep(readPause) {
		c := n.host.Cluster()
		if c == nil || c.Err() != nil {
			return false
		}
		infos, err := n.list(c, n.prefix())
		if err != nil {
			differs = "the locks cannot be listed: " + err.Error()
		} else if differs = n.account.compare(infos); differs == "" {
			return true
		}
	}
	n.wrong("what was watched does not add up to what the locks are: %s", differs)
	return false
}
