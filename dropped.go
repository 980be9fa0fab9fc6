package holdfast

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
)

// handle is the caller's hold on a lease. Nothing in the library keeps it, so it goes when the
// caller drops it: that of a lease which renews itself, and was not released, is told to people, as
// its lock is held for as long as the process lives.
//
// It takes a finalizer and no cleanup: a cleanup costs two allocations for each lease, a finalizer
// none, and the handle, which is one pointer into no cycle, is all that a finalizer keeps for
// longer. Setting one walks over those of the handles that share a page with it, so few share one:
// of 8 bytes each 1,024 would, and that was an eighth of what the node of many callers did.
func (l *tenure) handle() *Lease {
	h := &Lease{tenure: l}
	if l.maxHold == nil && !l.grant.Session().Manual() {
		runtime.SetFinalizer(h, (*Lease).dropped)
	}
	return h
}

// drops are leases that were dropped, for the keeper to tell: a finalizer runs on a goroutine of
// the runtime, which must not wait for a logger, and which belongs to no simulation.
type drops struct {
	mu  sync.Mutex
	all []*tenure
}

// dropped is called when nobody has the handle any more.
func (l *Lease) dropped() {
	if l.grant.Until() == 0 || l.grant.Err() != nil {
		return
	}
	d := &l.c.keeper.drops
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, l.tenure)
}

// tellDropped logs each dropped lease once, if it is still held.
func (k *keeper) tellDropped() {
	k.drops.mu.Lock()
	all := k.drops.all
	k.drops.all = nil
	k.drops.mu.Unlock()
	for _, t := range all {
		if t.grant.Err() == nil {
			k.c.log.Warn("a lease was dropped without Release, and is held until this node ends",
				"lock", t.name(), "token", t.token())
		}
	}
}

// Leases are those that this process holds, in the order of their names, and of their tokens where
// a name has several: of Acquire, Lead, Campaign and Once. For an overview, and for the end of a
// process that has lost sight of what it holds. Each call makes new Lease values: compare tokens,
// not pointers. It is local, without I/O.
func (c *Cluster) Leases() []*Lease {
	var all []*Lease
	for _, h := range c.keeper.table.Holders() {
		if l := (&Lease{tenure: h.(holding).tenure}); l.Valid() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Token(), b.Token()))
	})
	return all
}
