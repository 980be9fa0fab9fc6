package fsm

import "time"

func (m *Machine) acquire(c *Acquire) Outcome {
	if !c.valid() {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		return Outcome{Code: CodeNotServing}
	}
	s, code := m.open(c.Session, c.TTL)
	if code != CodeOK {
		return Outcome{Code: code}
	}
	m.ack(s, c.Acked)
	if c.Request < s.acked {
		return Outcome{Code: CodeFinished}
	}
	if r, live := m.requests.Get(request{opened: s.opened, number: c.Request}); live {
		if r.claim.name != c.Name {
			return Outcome{Code: CodeInvalid} // the number is another's
		}
		return r.claim.outcome()
	}
	if m.over(s, c.Request) {
		return Outcome{Code: CodeFinished}
	}
	if !m.roomForRequest(s) {
		return Outcome{Code: CodeTooManyRequests}
	}
	o := m.place(s, c)
	if o.Code != CodeGranted && o.Code != CodeQueued {
		m.finish(s, c.Request)
	}
	return o
}

// place grants a new request, queues it or refuses it.
func (m *Machine) place(s *session, c *Acquire) Outcome {
	if len(c.Others) > 0 {
		return m.placeSet(s, c)
	}
	l := m.lock(c.Name)
	if isOnce(c.Name) && (l == nil || l.unsettled) {
		if o := m.begin(c.Name); o.Code == CodeDone || l == nil && o.Code != CodeOK {
			return o
		}
	}
	if l != nil && l.differs(c.Limit) {
		return Outcome{Code: CodeLimitMismatch}
	}
	weight := max(c.Weight, 1)
	free := l == nil || l.waiters == 0 && m.fits(l, c.Mode, weight)
	if !free && l.waiters == 0 && m.full(l) && l.joins(c.Mode, weight) {
		return Outcome{Code: CodeTooManyHolders}
	}
	if !free && !c.Wait {
		return m.held(l)
	}
	if !free && c.Refuse && m.deadlocked(c) {
		return Outcome{Code: CodeDeadlock}
	}
	if code := m.exceeded(l, c, free); code != CodeOK {
		return Outcome{Code: code}
	}
	if l == nil {
		l = &lock{name: c.Name, epoch: m.epoch}
		m.locks.Set(c.Name, l)
	}
	claim := &claim{
		name: l.name, label: c.Label, owner: s.owner, request: c.Request,
		priority: c.Priority, weight: weight, limit: c.Limit, mode: c.Mode, election: c.Election,
		more: c.more(),
	}
	m.add(l, claim)
	if free {
		m.grant(l, claim)
		return Outcome{Code: CodeGranted, Token: claim.token}
	}
	m.wait(l, claim)
	m.requests.Set(request{s.opened, c.Request, claim})
	m.settle(l) // a waiter of higher priority than the others may fit where they do not
	r, _ := m.requests.Get(request{opened: s.opened, number: c.Request})
	return r.claim.outcome()
}

// more is what few claims have of it, nil if this one has nothing of that.
func (c *Acquire) more() *more {
	if !c.HasValue && c.Delay == 0 && len(c.While) == 0 {
		return nil
	}
	x := &more{delay: uint64(c.Delay / time.Millisecond), while: c.While}
	x.clear = c.HasValue && c.Value == nil
	if c.HasValue && c.Value != nil {
		x.value = &value{string(c.Value)}
	}
	return x
}

// outcome is that of a request, by what it has come to.
func (c *claim) outcome() Outcome {
	if c.token == 0 {
		return Outcome{Code: CodeQueued}
	}
	return Outcome{Code: CodeGranted, Token: c.token}
}

// exceeded says which bound a new claim would break. One token is set aside for each waiter, so
// that none waits for a token that never comes.
func (m *Machine) exceeded(l *lock, c *Acquire, free bool) Code {
	values := m.values + int64(len(c.Value))
	if free && l != nil && c.HasValue {
		values -= l.value.size()
	}
	switch {
	case m.counter+uint64(m.waiters.Len()) >= m.limits.token:
		return CodeTokensExhausted
	case l == nil && m.locks.Len() >= m.limits.locks, free && m.grants+m.rests.Len() >= m.limits.grants:
		return CodeTooManyLocks
	case !free && m.waiters.Len() >= m.limits.waiters:
		return CodeTooManyWaiters
	case len(c.Value) > 0 && values > m.limits.values:
		return CodeValuesFull
	}
	return CodeOK
}

// held refuses a try, tells the holders, and says who has the lock.
func (m *Machine) held(l *lock) Outcome {
	m.tell(l)
	o := Outcome{Code: CodeHeld, Waiters: int(l.waiters)}
	if first := m.firstHolder(l); first != nil {
		h := first.view()
		o.Holder = &h
	}
	return o
}

func (m *Machine) withdraw(c *Withdraw) Outcome {
	if !c.valid() {
		return Outcome{Code: CodeInvalid}
	}
	s := m.session(c.Session)
	if s == nil {
		if code := m.retire(c.Session); code != CodeOK {
			return Outcome{Code: code}
		}
		return Outcome{Code: CodeSessionLost}
	}
	m.ack(s, c.Acked)
	var o Outcome
	for _, number := range c.Requests {
		r, live := m.requests.Get(request{opened: s.opened, number: number})
		switch {
		case live && r.claim.token == 0:
			m.end(s, r.claim, ending{kind: EventWithdrawn, reason: ReasonWithdrawn})
		case live:
			m.end(s, r.claim, ending{kind: EventReleased, reason: ReasonWithdrawn})
		case m.over(s, number):
		case m.roomForRequest(s):
			m.finish(s, number)
		default:
			o.Code = CodeTooManyRequests
		}
	}
	return o
}

// ending is how a claim ends.
type ending struct {
	kind   EventKind
	reason Reason
	detail string
	rest   uint64 // milliseconds for which the place of a holder stays taken
}

// end finishes one claim of a session, or its whole set, and serves who waits behind it.
func (m *Machine) end(s *session, c *claim, how ending) {
	m.finish(s, c.request)
	if c.alone() {
		m.work += costOfClaim
		m.settle(m.remove(c, how))
		return
	}
	m.work += costOfClaim * len(c.more.set.claims)
	for _, c := range c.more.set.claims {
		m.remove(c, how)
	}
	for _, c := range c.more.set.claims {
		if l := m.lock(c.name); l != nil {
			m.settle(l)
		}
	}
}

// remove takes a claim out of its lock, says so, and lets its place rest. It returns the lock.
func (m *Machine) remove(c *claim, how ending) *lock {
	l := m.lock(c.name)
	m.drop(l, c)
	m.emit(how.kind, c, how.reason).Detail = how.detail
	if c.token != 0 {
		m.past.add(m.epoch, c, how, m.commands)
	}
	if how.rest > 0 {
		m.beginRest(l, c, how.rest)
	}
	return l
}
