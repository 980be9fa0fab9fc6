package fsm

// set is the claims of one Acquire of several names, in the order in which it named them. They wait
// in the queue of each name, and are granted when all of them are first there and fit. They were
// queued by one command, and the order by priority and arrival is the same in every queue: sets
// never wait for each other in a cycle.
type set struct{ claims []*claim }

// alone says whether the claim is of no set.
func (c *claim) alone() bool { return c.more == nil || c.more.set == nil }

// leads says whether the claim is the one by which its session knows it, or its set.
func (c *claim) leads() bool { return c.alone() || c.more.set.claims[0] == c }

func (c *Acquire) validSet() bool {
	if c.Mode == Permit || len(c.Others) >= SetMax {
		return false
	}
	for i, name := range c.Others {
		if !validName(name) || name == c.Name {
			return false
		}
		for _, other := range c.Others[:i] {
			if name == other {
				return false
			}
		}
	}
	return true
}

// placeSet grants a new request for a set of names, queues it or refuses it. The value is that of
// the first name.
func (m *Machine) placeSet(s *session, c *Acquire) Outcome {
	all := &set{claims: make([]*claim, 0, 1+len(c.Others))}
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
			x.delay, x.while = own.delay, own.while
			if i == 0 {
				x.value, x.clear = own.value, own.clear
			}
		}
		locks = append(locks, l)
		all.claims = append(all.claims, &claim{
			name: name, label: c.Label, owner: s.owner, request: c.Request,
			priority: c.Priority, weight: 1, mode: c.Mode, more: x,
		})
	}
	if taken != nil && !c.Wait {
		return m.held(taken)
	}
	if taken != nil && c.Refuse && m.deadlocked(c) {
		return Outcome{Code: CodeDeadlock}
	}
	if code := m.exceededBySet(locks, fresh, taken == nil, c); code != CodeOK {
		return Outcome{Code: code}
	}
	for i, claim := range all.claims {
		if locks[i] == nil {
			locks[i] = &lock{name: claim.name, epoch: m.epoch}
			m.locks.Set(claim.name, locks[i])
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
	m.settle(taken) // its priority may let it pass by those who wait in every queue
	r, _ := m.requests.Get(request{opened: s.opened, number: c.Request})
	return r.claim.outcome()
}

// exceededBySet says which bound the claims of a set would break.
func (m *Machine) exceededBySet(locks []*lock, fresh int, free bool, c *Acquire) Code {
	n := len(locks)
	values := m.values + int64(len(c.Value))
	if free && locks[0] != nil && c.HasValue {
		values -= locks[0].value.size()
	}
	switch {
	case m.counter+uint64(m.waiters.Len()) >= m.limits.token:
		return CodeTokensExhausted
	case m.locks.Len()+fresh > m.limits.locks, free && m.grants+m.rests.Len()+n > m.limits.grants:
		return CodeTooManyLocks
	case !free && m.waiters.Len()+n > m.limits.waiters:
		return CodeTooManyWaiters
	case len(c.Value) > 0 && values > m.limits.values:
		return CodeValuesFull
	}
	return CodeOK
}

// fitsSet says whether all claims of a waiting set are first in their queues and fit.
func (m *Machine) fitsSet(all *set) bool {
	for _, c := range all.claims {
		l, _ := m.locks.Get(c.name)
		if !m.fits(l, c.mode, c.weight) || m.head(l) != c {
			return false
		}
	}
	return true
}

// serveSet grants a waiting set, of which at is a lock that is being settled; the others are
// settled later.
func (m *Machine) serveSet(at *lock, all *set) {
	held := &set{claims: make([]*claim, 0, len(all.claims))}
	for _, c := range all.claims {
		m.waiters.Delete(c)
		l := m.lock(c.name)
		l.waiters--
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

// holdSet makes the claims of a set, which are in no tree, holders under one token.
func (m *Machine) holdSet(all *set) {
	m.counter++
	for _, c := range all.claims {
		m.hold(m.lock(c.name), c)
	}
	first := all.claims[0]
	m.requests.Set(request{first.owner.opened, first.request, first})
}
