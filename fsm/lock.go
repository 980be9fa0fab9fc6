package fsm

import "strings"

// lock is a name that is held, waited for or has a value.
type lock struct {
	name    string
	value   *value // nil: none. Never changed
	holder  *claim // the exclusive holder; others are in m.shared
	last    uint64 // highest token granted
	told    uint64 // holders up to this token have been told that somebody wants it
	epoch   uint64
	used    uint32 // sum of the weights of holders and rests
	limit   uint32 // of the semaphore that it is in use as, which all who use it give; 0: in use as a lock, or not in use
	waiters int32
	holders uint16
	resting uint16 // places that are taken though their holder is gone
	mode    Mode   // of the holders and rests

	unsettled bool // its first waiters are still to be served or sent away
}

// wanted says that all holders have been told, as they always are while somebody waits.
func (m *Machine) wanted(l *lock) bool {
	switch {
	case l.holders == 0:
		return l.waiters > 0
	case l.told >= l.last || l.holder != nil:
		return l.told >= l.last
	}
	told := true // if none of those who have not been is there any more
	m.shared.Ascend(&claim{name: l.name, token: l.told + 1}, func(c *claim) bool {
		told = c.name != l.name
		return false
	})
	return told
}

type value struct{ text string }

// size is how much of the bound on values it takes; that of no value is 0.
func (v *value) size() int64 {
	if v == nil {
		return 0
	}
	return int64(len(v.text))
}

// claim is a request that holds its lock or waits for it.
type claim struct {
	name     string
	label    string
	more     *more // what few claims have; nil: nothing. Never changed
	owner    *owner
	request  uint64
	token    uint64 // 0: waits
	index    uint64 // command of the grant; of the arrival while it waits
	priority int32
	weight   uint32
	limit    uint32
	mode     Mode
	election bool // who holds it leads
}

// more is what few claims have.
type more struct {
	value *value   // to be set at the grant
	clear bool     // the lock's value is to be removed then
	delay uint64   // milliseconds: what is lost rests for so long
	set   *set     // the claims that wait and hold together with it
	while []uint64 // tokens that its caller holds meanwhile
}

// holding is what is left of it at the grant.
func (x *more) holding() *more {
	if x == nil || x.delay == 0 && x.set == nil && x.while == nil {
		return nil
	}
	return &more{delay: x.delay, set: x.set, while: x.while}
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

// inUse says whether somebody holds a lock or waits for it, or a place of it rests. One that has
// only a value is free.
func (l *lock) inUse() bool { return l.holders > 0 || l.waiters > 0 || l.resting > 0 }

// differs says whether a name is in use as something else than what is asked for: exclusive and
// shared claims go together, as those of writers and readers, and the permits of one limit do. No
// others ever meet in a lock: whoever waited for that would wait for as long as the name is used,
// and of two programs that disagree neither would hear of it.
func (l *lock) differs(limit uint32) bool { return l.inUse() && l.limit != limit }

// fits says whether a claim can join the present holders.
func (m *Machine) fits(l *lock, mode Mode, weight uint32) bool {
	return l.holders == 0 && l.resting == 0 || l.joins(mode, weight) && !m.full(l)
}

// joins says whether a claim may hold a lock beside those who do.
func (l *lock) joins(mode Mode, weight uint32) bool {
	return mode == l.mode && mode != Exclusive && (mode == Shared || uint64(l.used)+uint64(weight) <= uint64(l.limit))
}

// full says whether a lock has as many holders and rests as it may.
func (m *Machine) full(l *lock) bool { return int(l.holders)+int(l.resting) >= m.limits.holders }

// add makes a new claim part of its lock's counts; grant or wait must follow.
func (m *Machine) add(l *lock, c *claim) {
	m.work += costOfClaim
	m.values += c.first().size()
	l.limit = c.limit
}

// wait queues a claim and tells the holders.
func (m *Machine) wait(l *lock, c *claim) {
	c.index = m.commands
	l.waiters++
	m.waiters.Set(c)
	m.nest(c)
	m.emit(EventQueued, c, ReasonNone)
	m.tell(l)
}

// grant makes a claim that is in no tree, or is the copy of one, a holder.
func (m *Machine) grant(l *lock, c *claim) {
	m.counter++
	m.hold(l, c)
	m.requests.Set(request{c.owner.opened, c.request, c})
}

// hold makes a claim a holder under the last token of the group.
func (m *Machine) hold(l *lock, c *claim) {
	m.grants++
	waited := c.index != 0
	c.token, c.index = m.counter, m.commands
	l.last, l.mode = c.token, c.mode
	l.holders++
	l.used += c.weight
	m.emit(EventGranted, c, ReasonNone).Waited = waited
	if c.more != nil {
		if c.more.value != nil || c.more.clear {
			m.write(l, c, c.more.value)
		}
		c.more = c.more.holding()
		m.nest(c)
	}
	if c.mode == Exclusive {
		l.holder = c
	} else {
		m.shared.Set(c)
	}
}

// write changes the value of a lock; the bytes of the new one are counted already.
func (m *Machine) write(l *lock, c *claim, v *value) {
	m.values -= l.value.size()
	l.value = v
	e := m.emit(EventValueSet, c, ReasonNone)
	if v != nil {
		e.Value = []byte(v.text)
	}
}

// drop takes a claim out of its lock and session, but not the others of its set. Somebody may fit
// then: settle must follow.
func (m *Machine) drop(l *lock, c *claim) {
	if c.token == 0 {
		m.waiters.Delete(c)
		l.waiters--
	} else {
		m.grants--
		l.holders--
		l.used -= c.weight
		if m.asked.Len() > 0 && c.leads() {
			m.unask(c.token)
		}
		if c.mode == Exclusive {
			l.holder = nil
		} else {
			m.shared.Delete(c)
		}
	}
	if c.more != nil && c.more.while != nil {
		m.nested.Delete(c)
	}
	m.values -= c.first().size()
	l.vacate()
	m.requests.Delete(request{opened: c.owner.opened, number: c.request})
}

// vacate adjusts a lock to the end of a claim or rest.
func (l *lock) vacate() {
	if l.holders == 0 && l.resting == 0 {
		l.mode = Exclusive
	}
	if !l.inUse() {
		l.limit = 0
	}
}

// settle grants the lock to its first waiters as far as they fit, in order, and then the locks of
// the sets among them, and lets go of locks that nobody needs.
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

// serveQueue settles one lock, as far as this command may. Holders that others wait behind are told
// so.
func (m *Machine) serveQueue(l *lock) {
	finished, later := m.isDone(l.name), false
	for l.waiters > 0 {
		c := m.head(l)
		if !c.alone() {
			m.work += costOfLook * len(c.more.set.claims)
		}
		if !finished && (!m.fits(l, c.mode, c.weight) || m.gone(c) || !c.alone() && !m.fitsSet(c.more.set)) {
			break
		}
		if later = m.left <= 0; later {
			break
		}
		switch {
		case finished:
			m.charge(costOfClaim)
			m.sendAway(c)
		case c.alone():
			m.charge(costOfClaim)
			m.waiters.Delete(c)
			l.waiters--
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
		m.locks.Delete(l.name)
	}
}

// postpone notes whether a lock is to be settled by later commands.
func (m *Machine) postpone(l *lock, later bool) {
	switch {
	case later && !l.unsettled:
		m.unsettled.Set(l.name, struct{}{})
	case !later && l.unsettled:
		m.unsettled.Delete(l.name)
	}
	l.unsettled = later
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

// tell says to each holder that has not been told that somebody wants the lock, as far as this
// command may. Who waits for one that is unsettled may be served beside them.
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
