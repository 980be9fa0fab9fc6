package fsm

import "slices"

// A caller that holds one lock while it waits for another says so (Acquire.While). Then it can be
// seen that callers wait for each other in a cycle: who waits is blocked by the holders of what it
// wants and by the waiters before it; who holds is blocked while something waits on its behalf.

// tracerSteps is how many claims one search looks at; beyond, it finds nothing.
const tracerSteps = 10_000

func lessNested(a, b *claim) bool {
	x, y := a.more.while[0], b.more.while[0]
	if x != y {
		return x < y
	}
	return lessRequest(request{opened: a.owner.opened, number: a.request}, request{opened: b.owner.opened, number: b.request})
}

// nest files a claim under what its caller holds meanwhile. One claim stands for a set.
func (m *Machine) nest(c *claim) {
	if c.more != nil && c.more.while != nil && c.leads() {
		m.nested.Set(c)
	}
}

// tracer looks for a way from somebody who waits to what it holds itself. Of a semaphore that takes
// as many holders that are on such a way as leave too few permits for who waits: the others give
// theirs back.
type tracer struct {
	m     *Machine
	steps int
	goal  []uint64            // tokens
	stuck map[*claim][]*claim // what leads to the goal, and those who wait on its way there
	seen  map[*claim]bool     // in this pass
	path  []*claim            // those who wait, each for something that the next one keeps
}

// deadlocked says whether a new request would wait for itself.
func (m *Machine) deadlocked(c *Acquire) bool {
	if len(c.While) == 0 {
		return false
	}
	t := &tracer{m: m, steps: tracerSteps}
	place := &claim{priority: c.Priority, index: m.commands, mode: c.Mode, weight: max(c.Weight, 1)}
	found := t.search(c.While, func() bool { return t.blocked(append([]string{c.Name}, c.Others...), place) })
	m.traced += tracerSteps - t.steps
	return found
}

// search says whether from leads to the goal. What a pass finds stuck after others have been looked
// at may make those stuck, too.
func (t *tracer) search(goal []uint64, from func() bool) bool {
	t.goal, t.stuck = goal, make(map[*claim][]*claim)
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

// blocked says whether those who block a claim at its place in the queues of these names lead to
// the goal.
func (t *tracer) blocked(names []string, place *claim) bool {
	for _, name := range names {
		l, ok := t.m.locks.Get(name)
		if !ok || l.unsettled { // who waits there is about to be served
			continue
		}
		most := place // who of those up to its place needs most
		for w := range t.m.waitersOf(l) {
			if w.priority < place.priority || w.priority == place.priority && w.index >= place.index {
				break
			}
			// The others that wait there wait for the same holders; a set waits elsewhere, too.
			if t.steps--; t.steps < 0 || !w.alone() && t.waiter(w.more.set.claims[0]) {
				return t.steps >= 0
			}
			if w.weight > most.weight && !t.m.gone(w) {
				most = w
			}
		}
		if t.held(l, most) {
			return true
		}
	}
	return false
}

// held says whether the holders that lead to the goal leave too little for a claim.
func (t *tracer) held(l *lock, c *claim) bool {
	begin, end := len(t.path), -1
	kept := uint64(c.weight)
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
		kept += uint64(h.weight)
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

// visit looks at a claim, once in a pass, unless it is known to be stuck.
func (t *tracer) visit(c *claim, look func() bool) bool {
	if rest, stuck := t.stuck[c]; stuck {
		t.path = append(t.path, rest...)
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
	t.stuck[c] = slices.Clone(t.path[begin:])
	return true
}

// names are those of the claim's set.
func (c *claim) names() (names []string) {
	if c.alone() {
		return []string{c.name}
	}
	for _, c := range c.more.set.claims {
		names = append(names, c.name)
	}
	return names
}

// Wait is somebody who waits for a lock.
type Wait struct {
	Holder        // Token is 0
	Name   string // of the lock, the first of a set
}

// Cycles are the cycles in which waiters of a lock wait for themselves: each waits for something
// that the next one's caller keeps meanwhile, and the last for something that the first one's does.
// It looks at the first hundred waiters, and at as much for all of them as WithDeadlockCheck does
// for one call; no cycle is answered twice.
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
