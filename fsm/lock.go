package fsm

import (
	"math"
	"strings"
)

// lock is a name that is held, waited for or has a value.
type lock struct {
	name    string
	value   *value // nil: none. Never changed
	holder  *claim // the exclusive holder; others are in m.shared
	last    uint64 // highest token granted
	told    uint64 // holders up to this token have been told that the lock is wanted
	epoch   uint64
	used    uint32 // sum of the weights of holders and rests
	limit   uint32 // of the semaphore (I1); 0: in use as a lock, or not in use
	waiters int32
	holders uint16
	resting uint16 // places that are taken though their holder is gone
	mode    Mode   // of the holders and rests

	unsettled bool // its first waiters are still to be served or withdrawn (I4)
}

// wanted reports whether all holders have been told that the lock is wanted, as they are while a
// claim waits.
func (m *Machine) wanted(l *lock) bool {
	switch {
	case l.holders == 0:
		return l.waiters > 0
	case l.told >= l.last || l.holder != nil:
		return l.told >= l.last
	}
	told := true // if no holder after l.told is left
	m.shared.Ascend(&claim{name: l.name, token: l.told + 1}, func(c *claim) bool {
		told = c.name != l.name
		return false
	})
	return told
}

// claim is a request that holds its lock or waits for it.
type claim struct {
	Terms
	name    string
	more    *more // what few claims have; nil: nothing. Never changed
	owner   *owner
	request uint64
	token   uint64 // 0: waits
	index   uint64 // command of the grant; of the arrival while it waits
}

// more is what few claims have.
type more struct {
	value *value   // to be set at the grant
	clear bool     // the lock's value is to be removed then
	set   *set     // the claims that wait and hold together with it
	while []uint64 // tokens that its caller holds meanwhile
}

// holding is what is left of it at the grant.
func (x *more) holding() *more {
	if x == nil || x.set == nil && x.while == nil {
		return nil
	}
	return &more{set: x.set, while: x.while}
}

// first is the value to be set at the grant.
func (c *claim) first() *value {
	if c.more == nil {
		return nil
	}
	return c.more.value
}

func lessByToken(a, b *claim) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

// lessByTurn is the order in which waiters are served. A command brings one waiter at most.
func lessByTurn(a, b *claim) bool {
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.index < b.index
}

// lock finds a lock and makes it the own copy of this machine; nil if there is none.
func (m *Machine) lock(name string) *lock {
	l := m.locks.find(name)
	if l != nil && l.epoch != m.epoch {
		mine := *l
		mine.epoch = m.epoch
		l = &mine
		m.locks.Set(name, l)
	}
	return l
}

// newLock makes the lock of a name that has none.
func (m *Machine) newLock(name string) *lock {
	var l *lock
	if last := len(m.spares) - 1; last < 0 {
		l = new(lock)
	} else {
		l, m.spares = m.spares[last], m.spares[:last]
	}
	*l = lock{name: name, epoch: m.epoch}
	m.locks.Set(name, l)
	return l
}

// dropLock drops a lock that nothing is left of (I6). Its memory is for another, as most locks live for
// two commands: l is the own copy of this machine, and no fork has it.
func (m *Machine) dropLock(l *lock) {
	m.locks.Delete(l.name)
	if len(m.spares) < BatchMax {
		m.spares = append(m.spares, l)
	}
}

// inUse reports whether a lock has a holder, a waiter or a rest. A lock with only a value is free.
func (l *lock) inUse() bool { return l.holders > 0 || l.waiters > 0 || l.resting > 0 }

// differs reports whether a name is in use with another limit. Exclusive and shared claims may meet
// in one lock, and permits of one limit may, or of the limit before a Resize. Others never do: such
// a waiter would wait for as long as the name is used, and neither of two programs that disagree
// would learn of it (I1).
func (l *lock) differs(limit uint32) bool { return l.inUse() && l.limit != limit }

// fits reports whether a claim can join the present holders and rests (I1).
func (m *Machine) fits(l *lock, mode Mode, weight uint32) bool {
	return l.holders == 0 && l.resting == 0 || l.joins(mode, weight) && !m.full(l)
}

// joins reports whether the mode and weight of a claim allow it beside the present holders (I1).
func (l *lock) joins(mode Mode, weight uint32) bool {
	return mode == l.mode && mode != Exclusive && (mode == Shared || uint64(l.used)+uint64(weight) <= uint64(l.limit))
}

// full reports whether a lock has as many holders and rests as the bound allows (I7).
func (m *Machine) full(l *lock) bool { return int(l.holders)+int(l.resting) >= m.limits.holders }

// add counts a new claim in its lock (I7); grant or wait must follow.
func (m *Machine) add(l *lock, c *claim) {
	m.work += costOfClaim
	if !l.inUse() {
		m.begins(l, c.Limit)
	}
	if !c.alone() {
		m.sets++
	}
}

// wait queues a claim and tells the holders.
func (m *Machine) wait(l *lock, c *claim) {
	c.index = m.commands
	l.waiters++
	m.queues(c)
	m.nest(c)
	m.emit(EventQueued, c, ReasonNone)
	m.tell(l)
}

// queues puts a waiter into the queue, with its value.
func (m *Machine) queues(c *claim) {
	m.takes(c.owner.id.Node, use{waiters: 1})
	m.waiters.Set(c)
	m.replaces(c.block(), nil, c.first())
}

// unwait takes a waiter out of its queue, with its value.
func (m *Machine) unwait(l *lock, c *claim) {
	m.waiters.Delete(c)
	l.waiters--
	m.takes(c.owner.id.Node, use{waiters: -1})
	m.replaces(c.block(), c.first(), nil)
}

// grant makes a claim that is in no tree, or is the copy of one, a holder under a token of its own
// (I2).
func (m *Machine) grant(l *lock, c *claim) {
	m.counter++
	m.hold(l, c)
	m.requests.Set(request{c.owner.opened, c.request, c})
}

// hold makes a claim a holder under the last token of the group.
func (m *Machine) hold(l *lock, c *claim) {
	m.grants++
	m.takes(c.owner.id.Node, use{locks: 1})
	waited := c.index != 0
	c.token, c.index, c.Limit = m.counter, m.commands, l.limit
	l.last, l.mode = c.token, c.Mode
	l.holders++
	l.used += c.Weight
	m.emit(EventGranted, c, ReasonNone).Waited = waited
	if c.more != nil {
		if c.more.value != nil || c.more.clear {
			m.write(l, c, c.more.value)
		}
		c.more = c.more.holding()
		m.nest(c)
	}
	if c.Mode == Exclusive {
		l.holder = c
	} else {
		m.shared.Set(c)
	}
}

// write changes the value of a lock.
func (m *Machine) write(l *lock, c *claim, v *value) {
	if v != nil && m.level < LevelOfQuotas { // an older replica does not remember the writer
		v = &value{text: v.text}
	}
	m.replaces(block{name: l.name}, l.value, v)
	l.value = v
	e := m.emit(EventValueSet, c, ReasonNone)
	if v != nil {
		e.Value = []byte(v.text)
	}
}

// drop takes a claim out of its lock and session, but not the others of its set. A waiter may fit
// then: settle must follow (I4).
func (m *Machine) drop(l *lock, c *claim) {
	if c.token == 0 {
		m.unwait(l, c)
	} else {
		m.grants--
		m.takes(c.owner.id.Node, use{locks: -1})
		l.holders--
		l.used -= c.Weight
		if m.asked.Len() > 0 && c.leads() {
			m.unask(c.token)
		}
		if c.Mode == Exclusive {
			l.holder = nil
		} else {
			m.shared.Delete(c)
		}
	}
	if c.more != nil && c.more.while != nil {
		m.nested.Delete(c)
	}
	if !c.alone() {
		m.sets--
	}
	l.vacate()
	m.requests.Delete(request{opened: c.owner.opened, number: c.request})
}

// vacate adjusts mode and limit of a lock to the end of a claim or rest (I1).
func (l *lock) vacate() {
	if l.holders == 0 && l.resting == 0 {
		l.mode = Exclusive
	}
	if !l.inUse() {
		l.limit = 0
	}
}

// settle grants the lock to its first waiters as far as they fit, in order, and then the other
// locks of the sets among them (I4). A lock without claims, rests and value is dropped (I6).
func (m *Machine) settle(l *lock) {
	m.serveQueue(l)
	for len(m.pending) > 0 {
		name := m.pending[len(m.pending)-1]
		m.pending = m.pending[:len(m.pending)-1]
		if l := m.lock(name); l != nil {
			m.serveQueue(l)
		}
	}
}

// serveQueue settles one lock, as far as this command may. The holders are told that waiters
// remain.
func (m *Machine) serveQueue(l *lock) {
	if l.unsettled && !m.sifts(l) {
		return
	}
	finished, later := m.isDone(l.name), false
	for l.waiters > 0 {
		c := m.head(l)
		if !c.alone() {
			m.work += costOfLook * len(c.more.set.claims)
		}
		if !finished && (!m.fits(l, c.Mode, c.Weight) || m.gone(c) || !c.alone() && !m.fitsSet(c.more.set)) {
			break
		}
		if later = m.left <= 0; later {
			break
		}
		switch {
		case finished:
			m.charge(costOfClaim)
			m.sendAway(c, ReasonFinished)
		case c.alone():
			m.charge(costOfClaim)
			m.unwait(l, c)
			holder := *c
			m.grant(l, &holder)
		default:
			m.charge(costOfClaim * len(c.more.set.claims))
			m.serveSet(l, c.more.set)
		}
	}
	m.postpone(l, later)
	if l.waiters > 0 {
		m.tell(l)
	}
	if !l.inUse() && l.value == nil {
		m.dropLock(l)
	}
}

// postpone records whether later commands are to settle a lock. An unsettled lock is on the list of
// unsettled locks, and no other is (I4).
func (m *Machine) postpone(l *lock, later bool) {
	switch {
	case later && !l.unsettled:
		m.unsettled.Set(l.name, sift{})
	case !later && l.unsettled:
		m.unsettled.Delete(l.name)
	}
	l.unsettled = later
}

// head is the first waiter of a lock that has one.
func (m *Machine) head(l *lock) (first *claim) {
	m.pivot = claim{Terms: Terms{Priority: math.MaxInt32}, name: l.name}
	m.waiters.Ascend(&m.pivot, func(c *claim) bool {
		first = c
		return false
	})
	return first
}

// tell emits EventWanted for each holder that has not been told that the lock is wanted, as far as
// this command may. An unsettled lock emits none: its waiters may be served beside the holders.
func (m *Machine) tell(l *lock) {
	if l.told >= l.last || l.unsettled {
		return
	}
	if l.holder != nil {
		l.told = l.last
		m.charge(costOfLook)
		m.emit(EventWanted, l.holder, ReasonNone)
		return
	}
	later := false
	m.pivot = claim{name: l.name, token: l.told + 1}
	m.shared.Ascend(&m.pivot, func(c *claim) bool {
		if c.name != l.name {
			return false
		}
		if later = m.left <= 0; later {
			return false
		}
		m.charge(costOfLook)
		m.emit(EventWanted, c, ReasonNone)
		l.told = c.token
		return true
	})
	switch {
	case !later:
		l.told = l.last
	case l.waiters > 0:
		m.postpone(l, true)
	}
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
