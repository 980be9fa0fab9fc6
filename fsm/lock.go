package fsm

import "strings"

// lock is a name that is held, waited for or has a value.
type lock struct {
	name     string
	value    string
	holder   *claim // the exclusive holder; others are in m.shared
	last     uint64 // highest token granted
	epoch    uint64
	used     uint32 // sum of the holders' weights
	limit    uint32 // of the permits held and waited for
	holders  int32
	waiters  int32
	permits  int32 // claims in mode Permit
	mode     Mode  // of the holders
	hasValue bool
	wanted   bool // all holders have been told; always so while somebody waits
}

// claim is a request that holds its lock or waits for it.
type claim struct {
	name     string
	label    string
	value    string // to be set at the grant
	owner    *owner
	request  uint64
	token    uint64 // 0: waits
	index    uint64 // of the grant; of the arrival while it waits
	priority int32
	weight   uint32
	limit    uint32
	mode     Mode
	hasValue bool
}

func lessByToken(a, b *claim) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

// lessByTurn is the order in which waiters are served. A log index brings one waiter at most.
func lessByTurn(a, b *claim) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.index < b.index
}

// lock finds a lock and makes it this machine's own to change; nil if there is none.
func (m *Machine) lock(name string) *lock {
	l, ok := m.locks.Get(name)
	if !ok {
		return nil
	}
	if l.epoch != m.epoch {
		mine := *l
		mine.epoch = m.epoch
		l = &mine
		m.locks.Set(name, l)
	}
	return l
}

// fits says whether a claim can join the present holders.
func (m *Machine) fits(l *lock, mode Mode, weight uint32) bool {
	switch {
	case l.holders == 0:
		return true
	case mode != l.mode || mode == Exclusive || int(l.holders) >= m.limits.holders:
		return false
	}
	return mode == Shared || uint64(l.used)+uint64(weight) <= uint64(l.limit)
}

// add makes a new claim part of its lock's counts; grant or wait must follow.
func (m *Machine) add(l *lock, c *claim) {
	m.values += int64(len(c.value))
	if c.mode == Permit {
		l.permits++
		l.limit = c.limit
	}
}

// wait queues a claim and tells the holders.
func (m *Machine) wait(l *lock, c *claim) {
	c.index = m.applied
	l.waiters++
	m.waiters.Set(c)
	m.requests.Set(request{c.owner.opened, c.request, c})
	m.emit(EventQueued, c, ReasonNone)
	if !l.wanted {
		m.tell(l, 0)
	}
}

// grant makes a claim that is in no tree, or is the copy of one, a holder.
func (m *Machine) grant(l *lock, c *claim) {
	m.counter++
	m.grants++
	waited := c.index != 0
	c.token, c.index = m.counter, m.applied
	l.last, l.mode, l.wanted = c.token, c.mode, false
	l.holders++
	l.used += c.weight
	m.emit(EventGranted, c, ReasonNone).Waited = waited
	if c.hasValue {
		m.write(l, c, true, c.value)
		c.hasValue, c.value = false, ""
	}
	if c.mode == Exclusive {
		l.holder = c
	} else {
		m.shared.Set(c)
	}
	m.requests.Set(request{c.owner.opened, c.request, c})
}

// write changes the value of a lock; the bytes of the new one are counted already.
func (m *Machine) write(l *lock, c *claim, has bool, value string) {
	m.values -= int64(len(l.value))
	l.hasValue, l.value = has, value
	e := m.emit(EventValueSet, c, ReasonNone)
	if has {
		e.Value = []byte(value)
	}
}

// drop takes a claim out of its lock and session. Somebody may fit then: settle must follow.
func (m *Machine) drop(l *lock, c *claim) {
	if c.token == 0 {
		m.waiters.Delete(c)
		l.waiters--
	} else {
		m.grants--
		l.holders--
		l.used -= c.weight
		if c.mode == Exclusive {
			l.holder = nil
		} else {
			m.shared.Delete(c)
		}
		if l.holders == 0 {
			l.mode, l.wanted = Exclusive, false
		}
	}
	m.values -= int64(len(c.value))
	if c.mode == Permit {
		l.permits--
		if l.permits == 0 {
			l.limit = 0
		}
	}
	m.requests.Delete(request{opened: c.owner.opened, number: c.request})
}

// settle grants the lock to its first waiters as far as they fit, in order, and lets go of a lock that
// nobody needs. A new holder that others wait behind is told so at once.
func (m *Machine) settle(l *lock) {
	before := m.counter
	for l.waiters > 0 {
		c := m.head(l)
		if !m.fits(l, c.mode, c.weight) {
			break
		}
		m.waiters.Delete(c)
		l.waiters--
		holder := *c
		m.grant(l, &holder)
	}
	if l.waiters > 0 && m.counter > before {
		m.tell(l, before)
	}
	if l.holders == 0 && l.waiters == 0 && !l.hasValue {
		m.locks.Delete(l.name)
	}
}

// head is the first waiter of a lock that has one.
func (m *Machine) head(l *lock) (first *claim) {
	m.pivot = claim{name: l.name, priority: 1<<31 - 1}
	m.waiters.Ascend(&m.pivot, func(c *claim) bool {
		first = c
		return false
	})
	return first
}

// tell says to each holder with a token above after that somebody wants the lock.
func (m *Machine) tell(l *lock, after uint64) {
	l.wanted = true
	if l.holder != nil {
		m.emit(EventWanted, l.holder, ReasonNone)
		return
	}
	m.pivot = claim{name: l.name, token: after + 1}
	m.shared.Ascend(&m.pivot, func(c *claim) bool {
		if c.name != l.name {
			return false
		}
		m.emit(EventWanted, c, ReasonNone)
		return true
	})
}

// holder finds the holder of a lock by its token, nil if the token is no current grant.
func (m *Machine) holder(l *lock, token uint64) *claim {
	if l == nil || token == 0 {
		return nil
	}
	if l.holder != nil {
		if l.holder.token == token {
			return l.holder
		}
		return nil
	}
	m.pivot = claim{name: l.name, token: token}
	c, _ := m.shared.Get(&m.pivot)
	return c
}
