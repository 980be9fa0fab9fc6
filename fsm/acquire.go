package fsm

func (c *Acquire) apply(m *Machine) Outcome {
	if !c.valid() || c.TTL > m.longestTTL() {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		return Outcome{Code: CodeNotServing}
	}
	s, refusal := m.open(c.Session, c.TTL)
	if s == nil {
		return refusal
	}
	m.ack(s, c.Acked)
	if c.Request < s.acked {
		return Outcome{Code: CodeFinished}
	}
	if live := m.claimOf(s, c.Request); live != nil {
		if live.name != c.Name {
			return Outcome{Code: CodeInvalid} // the number is another's
		}
		return live.outcome()
	}
	if m.over(s, c.Request) {
		return Outcome{Code: CodeFinished}
	}
	if !m.roomForRequest(s, c.Request) {
		return Outcome{Code: CodeTooManyRequests}
	}
	o := m.place(s, c)
	if o.Code != CodeGranted && o.Code != CodeQueued {
		m.finish(s, c.Request)
	}
	return o
}

// place grants a new request, queues it or refuses it. The queue comes first: a claim is granted at
// once only if no waiter is there (I4), and fits beside the holders (I1).
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
	terms := c.Terms
	terms.Weight = max(terms.Weight, 1)
	if !m.agrees(l, c.Name, &terms) {
		return Outcome{Code: CodeLimitMismatch}
	}
	free := l == nil || l.waiters == 0 && m.fits(l, c.Mode, terms.Weight)
	if !free && l.waiters == 0 && m.full(l) && l.joins(c.Mode, terms.Weight) {
		return Outcome{Code: CodeTooManyHolders}
	}
	if !free && !c.Wait {
		return m.held(l)
	}
	if !free && c.Refuse && m.deadlocked(c) {
		return Outcome{Code: CodeDeadlock}
	}
	fresh := 0
	if l == nil {
		fresh = 1
	}
	if o := m.exceeded(l, 1, fresh, c, free); o.Code != CodeOK {
		return o
	}
	if l == nil {
		l = m.newLock(c.Name)
	}
	claim := &claim{Terms: terms, name: l.name, owner: s.owner, request: c.Request, more: c.more()}
	m.add(l, claim)
	if free {
		m.grant(l, claim)
		return Outcome{Code: CodeGranted, Token: claim.token}
	}
	m.wait(l, claim)
	m.requests.Set(request{s.opened, c.Request, claim})
	m.settle(l) // a waiter of higher priority than the others may fit where they do not
	return m.claimOf(s, c.Request).outcome()
}

// more returns the parts of a claim that few claims have, nil if this one has none of them.
func (c *Acquire) more() *more {
	if !c.HasValue && len(c.While) == 0 {
		return nil
	}
	x := &more{while: c.While, clear: c.HasValue && c.Value == nil}
	if c.HasValue {
		x.value = newValue(c.Value, c.Session.Node)
	}
	return x
}

// outcome returns the answer to the request of a live claim.
func (c *claim) outcome() Outcome {
	if c.token == 0 {
		return Outcome{Code: CodeQueued}
	}
	return Outcome{Code: CodeGranted, Token: c.token}
}

// exceeded returns the refusal of the bound that new claims would break, CodeOK if none. claims is
// their number, fresh the number of locks that they make, and first is the lock of the value. One
// token is set aside for each waiter, so every waiter can be granted (I2, I7).
func (m *Machine) exceeded(first *lock, claims, fresh int, c *Acquire, free bool) Outcome {
	var replaced *value
	if free && first != nil && c.HasValue {
		replaced = first.value
	}
	values := m.values + int64(len(c.Value)) - replaced.size()
	switch {
	case m.counter+uint64(m.waiters.Len()) >= m.limits.token:
		return Outcome{Code: CodeTokensExhausted}
	case fresh > 0 && m.locks.Len()+fresh > m.limits.locks, free && m.grants+m.rests.Len()+claims > m.limits.grants:
		return Outcome{Code: CodeTooManyLocks}
	case !free && m.waiters.Len()+claims > m.limits.waiters:
		return Outcome{Code: CodeTooManyWaiters}
	case len(c.Value) > 0 && values > m.limits.values:
		return Outcome{Code: CodeValuesFull}
	}
	if over := m.overQuota(c, replaced, free); over != nil {
		return Outcome{Code: CodeOverQuota, Over: over}
	}
	return Outcome{}
}

// held refuses a try, tells the holders that the lock is wanted, and returns the first of them.
func (m *Machine) held(l *lock) Outcome {
	m.tell(l)
	o := Outcome{Code: CodeHeld, Waiters: int(l.waiters)}
	if first := m.firstHolder(l); first != nil {
		h := first.view()
		o.Holder = &h
	}
	return o
}

func (c *Withdraw) apply(m *Machine) Outcome {
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
		live := m.claimOf(s, number)
		switch {
		case live != nil && live.token == 0:
			m.end(s, live, ending{kind: EventWithdrawn, reason: ReasonWithdrawn})
		case live != nil:
			m.end(s, live, ending{kind: EventReleased, reason: ReasonWithdrawn})
		case m.over(s, number):
		case m.roomForRequest(s, number):
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

// end finishes one claim of a session, or its whole set (I9), and serves the waiters behind it. The
// request is finished as its claim goes: it is never both live and finished (I5).
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

// remove takes a claim out of its lock, emits the event of its end, and lets its place rest. It
// returns the lock, which the caller must settle (I4).
func (m *Machine) remove(c *claim, how ending) *lock {
	l := m.lock(c.name)
	m.drop(l, c)
	m.emit(how.kind, c, how.reason).Detail = how.detail
	if c.token != 0 {
		m.past.add(m.epoch, &m.limits, c, how, m.commands)
	}
	if how.rest > 0 {
		m.beginRest(l, c, how.rest)
	}
	return l
}
