package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/loop"
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
	_ = loop.Sleep(ctx, x.slow)
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
		_ = loop.Sleep(ctx, readPause)
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

type account struct {
	mu    sync.Mutex
	locks map[string]state
}

type state struct {
	holders map[holdfast.Token]bool
	waiters map[string]bool
	value   string
}

func newState() state {
	return state{holders: make(map[holdfast.Token]bool), waiters: make(map[string]bool)}
}

func states(infos map[string]holdfast.LockInfo) map[string]state {
	locks := make(map[string]state)
	for name, info := range infos {
		s := newState()
		s.value = valueOf(info.Value)
		for _, h := range info.Holders {
			s.holders[h.Token] = true
		}
		for _, h := range info.Waiters {
			s.waiters[waiter(h)] = true
		}
		locks[name] = s
	}
	return locks
}

// waiter tells one who waits from the others.
func waiter(h holdfast.Holder) string { return h.NodeID + " " + h.Label }

func (a *account) set(infos map[string]holdfast.LockInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.locks = states(infos)
}

func (a *account) apply(e holdfast.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.locks == nil {
		a.locks = make(map[string]state)
	}
	s, ok := a.locks[e.Name]
	if !ok {
		s = newState()
	}
	switch e.Kind {
	case holdfast.EventGranted:
		s.holders[e.Holder.Token] = true
		delete(s.waiters, waiter(e.Holder))
	case holdfast.EventReleased, holdfast.EventExpired, holdfast.EventLost, holdfast.EventForced:
		delete(s.holders, e.Holder.Token)
	case holdfast.EventQueued:
		s.waiters[waiter(e.Holder)] = true
	case holdfast.EventWithdrawn:
		delete(s.waiters, waiter(e.Holder))
	case holdfast.EventValue:
		s.value = valueOf(e.Holder.Value)
	}
	a.locks[e.Name] = s
}

// compare says in words where the account differs from what a read tells, "" if it does not.
func (a *account) compare(infos map[string]holdfast.LockInfo) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var differ []string
	locks := states(infos)
	names := maps.Clone(locks)
	maps.Copy(names, a.locks)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		told, read := a.locks[name], locks[name]
		if !maps.Equal(told.holders, read.holders) || !maps.Equal(told.waiters, read.waiters) || told.value != read.value {
			differ = append(differ, fmt.Sprintf("%s: %+v and %+v", name, told, read))
		}
	}
	return strings.Join(differ, "; ")
}
