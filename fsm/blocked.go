package fsm

import "slices"

// A caller that holds one lock while it waits for another says so (Acquire.While). Then it can be seen that
// callers wait for each other in a circle: who waits is blocked by the holders of what it wants and by the
// waiters before it; who holds is blocked while something waits on its behalf.

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

// tracer looks for a way from somebody who waits to what it holds itself.
type tracer struct {
	m     *Machine
	goal  []uint64 // tokens
	seen  map[*claim]bool
	steps int
	path  []*claim // those who wait, each for something that the next one keeps
}

// deadlocked says whether a new request would wait for itself.
func (m *Machine) deadlocked(c *Acquire) bool {
	if len(c.While) == 0 {
		return false
	}
	t := &tracer{m: m, goal: c.While, seen: make(map[*claim]bool), steps: tracerSteps}
	place := &claim{priority: c.Priority, index: m.applied}
	return t.blocked(append([]string{c.Name}, c.Others...), place)
}

// blocked says whether one of those who block a claim at its place in the queues of these names leads to the goal.
func (t *tracer) blocked(names []string, place *claim) bool {
	for _, name := range names {
		l, ok := t.m.locks.Get(name)
		if !ok {
			continue
		}
		for h := range t.m.holdersOf(l) {
			if t.holder(h) {
				return true
			}
		}
		for w := range t.m.waitersOf(l) {
			if w.priority < place.priority || w.priority == place.priority && w.index >= place.index {
				break
			}
			// The others that wait there wait for the same holders; a set waits elsewhere, too.
			if t.steps--; t.steps < 0 || !w.alone() && t.waiter(w.more.set.claims[0]) {
				return t.steps >= 0
			}
		}
	}
	return false
}

func (t *tracer) visit(c *claim) bool {
	t.steps--
	if t.steps < 0 || t.seen[c] {
		return false
	}
	t.seen[c] = true
	return true
}

func (t *tracer) holder(h *claim) bool {
	if slices.Contains(t.goal, h.token) {
		return true
	}
	if !t.visit(h) {
		return false
	}
	found := false
	t.m.nested.Ascend(&claim{owner: &owner{}, more: &more{while: []uint64{h.token}}}, func(c *claim) bool {
		if c.more.while[0] != h.token {
			return false
		}
		found = c.token == 0 && t.waiter(c) || c.token != 0 && t.holder(c)
		return !found
	})
	return found
}

func (t *tracer) waiter(c *claim) bool {
	if !t.visit(c) {
		return false
	}
	t.path = append(t.path, c)
	if t.blocked(c.names(), c) {
		return true
	}
	t.path = t.path[:len(t.path)-1]
	return false
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

// Cycles are the circles in which waiters of a lock wait for themselves: each waits for something that the next
// one's caller keeps meanwhile, and the last for something that the first one's does. It looks at the first
// hundred waiters, and answers no circle twice.
func (m *Machine) Cycles(name string) (cycles [][]Wait) {
	l, ok := m.locks.Get(name)
	if !ok {
		return nil
	}
	n, reported := 0, make(map[*claim]bool)
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
		t := &tracer{m: m, goal: c.more.while, seen: make(map[*claim]bool), steps: tracerSteps}
		if !t.waiter(c) {
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
