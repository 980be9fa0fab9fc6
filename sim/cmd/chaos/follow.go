//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

// settleMax is how long a watcher may take to know what a read tells, when nothing happens any more.
const settleMax = 10 * time.Second

// prefix is what the process watches: everything, or the locks of the set.
func (p *process) prefix() string {
	if p.plan.Node%3 == 1 {
		return setPrefix
	}
	return ""
}

// follow watches the locks until ctx or the node ends, tells all that it is told, and keeps account of who holds,
// who waits and what the values are, as a user would: it reads the state at the beginning and where events are missing.
func (p *process) follow(ctx context.Context, prefix string) {
	for ctx.Err() == nil && p.c.Err() == nil {
		p.followOnce(ctx, prefix)
	}
}

func (p *process) followOnce(ctx context.Context, prefix string) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	w := history.Event{Kind: history.Watching, Op: p.op(), Lock: prefix}
	from := p.now()
	events := p.c.Watch(watching, prefix)
	p.event(from, w)
	defer func() {
		p.event(p.now(), history.Event{Kind: history.Unheard, Op: w.Op, Lock: prefix})
	}()
	if !p.read(ctx, prefix) {
		return
	}
	for e, err := range events {
		if err != nil {
			p.understand(p.c, "watching", err)
			return
		}
		p.event(p.now(), history.Event{
			Kind: history.Told, Op: w.Op, Lock: e.Name, Index: e.Index, Change: e.Kind.String(),
			Token: uint64(e.Holder.Token), Of: opOf(e.Holder), Value: string(e.Holder.Value),
		})
		if e.Kind == holdfast.EventForced && e.Reason != forceReason {
			p.wrong("a lock was freed by force, and the reason told is %q", e.Reason)
		}
		if e.Kind != holdfast.EventResync {
			p.fold.apply(e)
		} else if !p.read(ctx, prefix) {
			return
		}
	}
}

// read puts the account on what a read tells. What is told afterwards may be older: it comes to the same in the end. false:
// the group does not answer.
func (p *process) read(ctx context.Context, prefix string) bool {
	for ctx.Err() == nil && p.c.Err() == nil {
		if locks, err := p.list(prefix); err == nil {
			p.fold.set(locks)
			return true
		}
		time.Sleep(statusEvery)
	}
	return false
}

// list are the locks of a prefix as they are now.
func (p *process) list(prefix string) (map[string]folded, error) {
	locks := make(map[string]folded)
	for info, err := range p.c.Locks(within(callLimit), prefix) {
		if err != nil {
			p.understand(p.c, "listing", err)
			return nil, err
		}
		f := newFolded()
		f.value = string(info.Value)
		for _, h := range info.Holders {
			f.holders[h.Token] = true
		}
		for _, h := range info.Waiters {
			f.waiters[waiter(h)] = true
		}
		locks[info.Name] = f
	}
	return locks, nil
}

// settle demands that the account comes to what a read tells, when nothing happens any more.
func (p *process) settle() {
	var differs string
	for deadline := p.now() + settleMax; p.now() < deadline; time.Sleep(statusEvery) {
		locks, err := p.list(p.prefix())
		if err != nil {
			differs = fmt.Sprint("the locks cannot be listed: ", err)
		} else if differs = p.fold.compare(locks); differs == "" {
			p.add(p.now(), story.Line{Kind: story.KindNote, Text: story.Settled})
			return
		}
		if p.c.Err() != nil {
			return
		}
	}
	p.wrong("what was watched does not add up to what the locks are: %s", differs)
}

// fold is what follows from what a watcher was told.
type fold struct {
	mu    sync.Mutex
	locks map[string]folded
}

// folded is one lock.
type folded struct {
	holders map[holdfast.Token]bool
	waiters map[string]bool
	value   string
}

func newFolded() folded {
	return folded{holders: make(map[holdfast.Token]bool), waiters: make(map[string]bool)}
}

// waiter tells one who waits from the others.
func waiter(h holdfast.Holder) string { return h.NodeID + " " + h.Label }

func (f *fold) set(locks map[string]folded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks = locks
}

func (f *fold) apply(e holdfast.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.locks[e.Name]
	if !ok {
		l = newFolded()
	}
	switch e.Kind {
	case holdfast.EventGranted:
		l.holders[e.Holder.Token] = true
		delete(l.waiters, waiter(e.Holder))
	case holdfast.EventReleased, holdfast.EventExpired, holdfast.EventLost, holdfast.EventForced:
		delete(l.holders, e.Holder.Token)
	case holdfast.EventQueued:
		l.waiters[waiter(e.Holder)] = true
	case holdfast.EventWithdrawn:
		delete(l.waiters, waiter(e.Holder))
	case holdfast.EventValue:
		l.value = string(e.Holder.Value)
	}
	f.locks[e.Name] = l
}

// compare says in words where the account differs from the locks, "" if it does not.
func (f *fold) compare(locks map[string]folded) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var differ []string
	names := maps.Clone(locks)
	maps.Copy(names, f.locks)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := f.locks[name], locks[name]
		if !maps.Equal(a.holders, b.holders) || !maps.Equal(a.waiters, b.waiters) || a.value != b.value {
			differ = append(differ, fmt.Sprintf("%s: %+v and %+v", name, a, b))
		}
	}
	return strings.Join(differ, "; ")
}
