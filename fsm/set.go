package fsm

import "slices"

// set is the claims of one Acquire of several names, in the order of its names. The claims wait in
// the queue of each name, and are granted when all of them are first there and fit (I9). One
// command queued them, and the order by priority and arrival is the same in every queue: sets never
// wait for each other in a cycle.
type set struct{ claims []*claim }

// alone reports whether the claim is of no set.
func (c *claim) alone() bool { return c.more == nil || c.more.set == nil }

// leads reports whether the session knows the claim, or its set, by this claim.
func (c *claim) leads() bool { return c.alone() || c.more.set.claims[0] == c }

// all are the claims of its set, or it alone.
func (c *claim) all() []*claim {
	if c.alone() {
		return []*claim{c}
	}
	return c.more.set.claims
}

// Sets reports whether a live claim is of a set.
func (m *Machine) Sets() bool { return m.sets > 0 }

func (c *Acquire) validSet() bool {
	if len(c.Others) >= SetMax {
		return false
	}
	for i, name := range c.Others {
		if !validName(name) || name == c.Name || slices.Contains(c.Others[:i], name) {
			return false
		}
	}
	return true
}

// placeSet grants a new request for a set of names, queues it or refuses it. The value is that of
// the first name.
func (m *Machine) placeSet(s *session, c *Acquire) Outcome {
	all := &set{claims: make([]*claim, 0, 1+len(c.Others))}
	terms := c.Terms
	terms.Weight = 1
	var taken *lock // one that is not free
	locks, fresh := make([]*lock, 0, cap(all.claims)), 0
	for i := range cap(all.claims) {
		name := c.Name
		if i > 0 {
			name = c.Others[i-1]
		}
		l := m.lock(name)
		switch {
		case l == nil:
			fresh++
		case l.differs(c.Limit):
			return Outcome{Code: CodeLimitMismatch}
		case l.waiters == 0 && m.full(l) && l.joins(c.Mode, 1):
			return Outcome{Code: CodeTooManyHolders}
		case taken == nil && (l.waiters > 0 || !m.fits(l, c.Mode, 1)):
			taken = l
		}
		x := &more{set: all}
		if own := c.more(); own != nil {
			x.while = own.while
			if i == 0 {
				x.value, x.clear = own.value, own.clear
			}
		}
		locks = append(locks, l)
		all.claims = append(all.claims, &claim{Terms: terms, name: name, owner: s.owner, request: c.Request, more: x})
	}
	if taken != nil && !c.Wait {
		return m.held(taken)
	}
	if taken != nil && c.Refuse && m.deadlocked(c) {
		return Outcome{Code: CodeDeadlock}
	}
	if o := m.exceeded(locks[0], len(locks), fresh, c, taken == nil); o.Code != CodeOK {
		return o
	}
	for i, claim := range all.claims {
		if locks[i] == nil {
			locks[i] = m.newLock(claim.name)
		}
		m.add(locks[i], claim)
	}
	if taken == nil {
		m.holdSet(all)
		return all.claims[0].outcome()
	}
	for i, claim := range all.claims {
		m.wait(locks[i], claim)
	}
	m.requests.Set(request{s.opened, c.Request, all.claims[0]})
	m.settle(taken) // its priority may let it overtake the waiters of every queue
	return m.claimOf(s, c.Request).outcome()
}

// fitsSet reports whether all claims of a waiting set are first in their queues and fit (I1, I9).
func (m *Machine) fitsSet(all *set) bool {
	for _, c := range all.claims {
		l, _ := m.locks.Get(c.name)
		if !m.fits(l, c.Mode, c.Weight) || m.head(l) != c {
			return false
		}
	}
	return true
}

// serveSet grants a waiting set (I9). The lock at is being settled; the others are settled later
// (I4).
func (m *Machine) serveSet(at *lock, all *set) {
	held := &set{claims: make([]*claim, 0, len(all.claims))}
	for _, c := range all.claims {
		l := m.lock(c.name)
		m.unwait(l, c)
		if l != at {
			m.pending = append(m.pending, c.name)
		}
		holder, x := *c, *c.more
		x.set = held
		holder.more = &x
		held.claims = append(held.claims, &holder)
	}
	m.holdSet(held)
}

// holdSet makes the claims of a set, which are in no tree, holders under one token (I2, I9).
func (m *Machine) holdSet(all *set) {
	m.counter++
	for _, c := range all.claims {
		m.hold(m.lock(c.name), c)
	}
	first := all.claims[0]
	m.requests.Set(request{first.owner.opened, first.request, first})
}
