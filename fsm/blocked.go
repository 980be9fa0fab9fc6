package fsm

import "slices"

// A caller that holds one lock while it waits for another names its tokens (Acquire.While). From
// these the machine sees the wait-for graph: a waiter is blocked by the holders of its lock and by
// the waiters before it; a holder is blocked while a claim waits on its behalf.

// tracerSteps is how many claims one search visits; a search that needs more finds no cycle. Part
// of the replicated machine.
const tracerSteps = 10_000

func lessNested(a, b *claim) bool {
	x, y := a.more.while[0], b.more.while[0]
	if x != y {
		return x < y
	}
	return lessRequest(request{opened: a.owner.opened, number: a.request}, request{opened: b.owner.opened, number: b.request})
}

// nest files a claim under the tokens that its caller holds meanwhile (I3). The first claim of a
// set stands for the set.
func (m *Machine) nest(c *claim) {
	if c.more != nil && c.more.while != nil && c.leads() {
		m.nested.Set(c)
	}
}

// tracer searches the wait-for graph for a cycle. A semaphore blocks a waiter only if the holders
// on the cycle leave it too few permits: the other holders release theirs.
type tracer struct {
	m     *Machine
	steps int
	goal  []uint64          // tokens
	stuck map[*claim]*claim // claims that lead to the goal, each with the next waiter on its way there; nil: none
	seen  map[*claim]bool   // in this pass
	path  []*claim          // waiters, each for a lock that the next one keeps
}

// deadlocked reports whether a new request would wait for its own caller.
func (m *Machine) deadlocked(c *Acquire) bool {
	if len(c.While) == 0 {
		return false
	}
	t := &tracer{m: m, steps: tracerSteps}
	place := &claim{Terms: c.Terms, index: m.commands}
	place.Weight = max(c.Weight, 1)
	found := t.search(c.While, func() bool { return t.blocked(append([]string{c.Name}, c.Others...), place) })
	m.traced += tracerSteps - t.steps
	return found
}

// search reports whether from leads to the goal. A claim found stuck in one pass may make claims
// visited before it stuck, so passes are repeated until one finds no more.
func (t *tracer) search(goal []uint64, from func() bool) bool {
	t.goal, t.stuck = goal, make(map[*claim]*claim)
	for {
		known := len(t.stuck)
		t.seen, t.path = make(map[*claim]bool), nil
		if from() {
			return true
		}
		if len(t.stuck) == known || t.steps < 0 {
			return false
		}
	}
}

// blocked reports whether the claims that block a claim at its place in these queues lead to the
// goal.
func (t *tracer) blocked(names []string, place *claim) bool {
	for _, name := range names {
		l, ok := t.m.locks.Get(name)
		if !ok || l.unsettled { // its waiters are about to be served
			continue
		}
		most := place // of the waiters up to its place, the one of the highest weight
		for w := range t.m.waitersOf(l) {
			if w.Priority < place.Priority || w.Priority == place.Priority && w.index >= place.index {
				break
			}
			// The other waiters of this lock wait for the same holders; a set waits for other
			// locks, too.
			if t.steps--; t.steps < 0 || !w.alone() && t.waiter(w.more.set.claims[0]) {
				return t.steps >= 0
			}
			if w.Weight > most.Weight && !t.m.gone(w) {
				most = w
			}
		}
		if t.held(l, most) {
			return true
		}
	}
	return false
}

// held reports whether the holders that lead to the goal leave too few permits for a claim.
func (t *tracer) held(l *lock, c *claim) bool {
	begin, end := len(t.path), -1
	kept := uint64(c.Weight)
	for h := range t.m.holdersOf(l) {
		if t.steps < 0 {
			break
		}
		if !t.holder(h) {
			continue
		}
		if end < 0 {
			end = len(t.path)
		}
		t.path = t.path[:end] // one way is enough
		kept += uint64(h.Weight)
		if l.mode != Permit || kept > uint64(l.limit) {
			return true
		}
	}
	t.path = t.path[:begin]
	return false
}

func (t *tracer) holder(h *claim) bool {
	return slices.Contains(t.goal, h.token) && !t.m.gone(h) || t.visit(h, func() (found bool) {
		t.m.nested.Ascend(&claim{owner: &owner{}, more: &more{while: []uint64{h.token}}}, func(c *claim) bool {
			if c.more.while[0] != h.token {
				return false
			}
			found = c.token == 0 && t.waiter(c) || c.token != 0 && t.holder(c)
			return !found
		})
		return found
	})
}

func (t *tracer) waiter(c *claim) bool {
	return t.visit(c, func() bool {
		t.path = append(t.path, c)
		return t.blocked(c.names(), c)
	})
}

// visit searches behind a claim, once in a pass, unless the claim is known to be stuck.
func (t *tracer) visit(c *claim, look func() bool) bool {
	if next, stuck := t.stuck[c]; stuck {
		if c.token == 0 {
			t.path = append(t.path, c)
		}
		for ; next != nil; next = t.stuck[next] {
			t.path = append(t.path, next)
		}
		return true
	}
	t.steps--
	if t.steps < 0 || t.seen[c] || t.m.gone(c) {
		return false
	}
	t.seen[c] = true
	begin := len(t.path)
	if !look() {
		t.path = t.path[:begin]
		return false
	}
	way := t.path[begin:]
	if c.token == 0 {
		way = way[1:] // it is the first itself
	}
	t.stuck[c] = nil
	if len(way) > 0 {
		t.stuck[c] = way[0]
	}
	return true
}

// names are those of the claim's set.
func (c *claim) names() (names []string) {
	for _, c := range c.all() {
		names = append(names, c.name)
	}
	return names
}

// Wait is one waiter of a cycle.
type Wait struct {
	Holder        // Token is 0
	Name   string // of the lock, the first of a set
}

// Cycles are the wait-for cycles of a lock: each waiter waits for a lock that the caller of the
// next one keeps, and the last waiter for one that the first caller keeps. The search covers the
// first hundred waiters, and visits as many claims for all of them as WithDeadlockCheck does for
// one call; each cycle is returned once.
func (m *Machine) Cycles(name string) (cycles [][]Wait) {
	l, ok := m.locks.Get(name)
	if !ok {
		return nil
	}
	n, reported := 0, make(map[*claim]bool)
	t := &tracer{m: m, steps: tracerSteps}
	for c := range m.waitersOf(l) {
		if n++; n > 100 {
			break
		}
		if !c.alone() {
			c = c.more.set.claims[0]
		}
		if c.more == nil || c.more.while == nil || reported[c] {
			continue
		}
		if !t.search(c.more.while, func() bool { return t.waiter(c) }) {
			continue
		}
		var cycle []Wait
		for _, c := range t.path {
			reported[c] = true
			cycle = append(cycle, Wait{c.view(), c.name})
		}
		cycles = append(cycles, cycle)
	}
	return cycles
}
