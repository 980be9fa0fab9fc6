package fsm

import "bytes"

// What ends much ends in steps, so that other commands come between. The command that ends a
// session says so (EventSessionEnded), and from then on nothing is renewed, asked for, written or
// released on it, and none of its tokens is a current grant. What it held stays taken until a step
// takes it away and serves who waits for it. What it waited for is never granted, and nobody passes
// it by. The first step is part of the command that ends; the others are Continues.
//
// The same goes for what a single lock brings: of ten thousand readers behind a writer, and of
// those who wait for a Once key that is finished, each command serves or sends away as many; nobody
// passes the others by.

// Continue takes the next step of what has ended and is still there, and serves who is still to be
// served. Last is what Machine.Unfinished says. CodeFinished if another step was taken since then,
// or nothing is left.
type Continue struct{ Last uint64 }

// teardown is what is left of an end: the claims of a session, or the sessions of a process, or all
// that it waits for. A session of the process becomes a teardown of its own as soon as its end is
// said.
type teardown struct {
	began  uint64    // number of the command
	id     SessionID // Number 0: of the process
	waits  bool      // only what the process waits for goes
	from   uint64    // of a process: sessions that were opened, or claims that were queued, after from
	upto   uint64    // and not after upto
	number uint64    // sessions of the process up to it have been looked at, and
	at     uint64    // of what waits: the session that was looked at last, if it is still there, and
	after  uint64    // its requests up to this one
	how    ending
}

func lessTeardown(a, b teardown) bool {
	if a.began != b.began {
		return a.began < b.began
	}
	if c := bytes.Compare(a.id.Node[:], b.id.Node[:]); c != 0 {
		return c < 0
	}
	if a.id.Incarnation != b.id.Incarnation {
		return a.id.Incarnation < b.id.Incarnation
	}
	if a.id.Number != b.id.Number {
		return a.id.Number < b.id.Number
	}
	return !a.waits && b.waits
}

// ended reports whether a session that is there has ended.
func (m *Machine) ended(s *session) bool {
	if m.teardowns.Len() == 0 || s.ended {
		return s.ended
	}
	n, _ := m.process(s.id.Node, s.id.Incarnation)
	return s.opened <= n.ended
}

// gone reports whether a claim that is there goes with the next steps: its session has ended, or
// all that its process waited for was withdrawn.
func (m *Machine) gone(c *claim) bool {
	if m.teardowns.Len() == 0 {
		return false
	}
	ref, _ := m.sessions.Get(sessionRef{id: c.owner.id})
	if m.ended(ref.s) {
		return true
	}
	n, _ := m.process(c.owner.id.Node, c.owner.id.Incarnation)
	return c.token == 0 && c.index <= n.withdrawn
}

// endSession ends a session; carryOut must follow. began is the number of the command that does.
func (m *Machine) endSession(s *session, how ending, began uint64) {
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventSessionEnded, Session: s.id, TTL: s.ttl, Reason: how.reason,
		Detail: how.detail, NodeName: s.nodeName,
	})
	s.ended = true
	m.recent = nil
	m.teardowns.Set(teardown{began: began, id: s.id, how: how})
}

// endSessions ends the sessions of a process that were opened up to a command; carryOut must
// follow.
func (m *Machine) endSessions(n node, upto uint64, how ending) {
	if upto = min(upto, m.commands); n.gone != 0 {
		upto = min(upto, n.gone) // none was opened since then
	}
	if upto <= n.ended || !m.hasSessions(n) {
		return
	}
	m.recent = nil
	m.teardowns.Set(teardown{began: m.commands, id: SessionID{Node: n.id, Incarnation: n.incarnation}, from: n.ended, upto: upto, how: how})
	n.ended = upto
	m.nodes.Set(n)
}

// withdrawAll withdraws all that a process waits for, which holds what it holds; carryOut must
// follow.
func (m *Machine) withdrawAll(n node, reason Reason) {
	if n.over || !m.hasSessions(n) {
		return
	}
	m.teardowns.Set(teardown{
		began: m.commands, id: SessionID{Node: n.id, Incarnation: n.incarnation}, waits: true,
		from: n.withdrawn, upto: m.commands, how: ending{reason: reason},
	})
	n.withdrawn = m.commands
	m.nodes.Set(n)
}

func (m *Machine) continued(c *Continue) Outcome {
	if last, left := m.Unfinished(); !left || c.Last != last {
		return Outcome{Code: CodeFinished}
	}
	m.stepped = m.commands
	for m.left > 0 {
		name, _, ok := m.unsettled.Min()
		if !ok {
			break
		}
		m.settle(m.lock(name))
	}
	m.carryOut(0)
	return Outcome{}
}

// carryOut takes one step of the ends that a command or a later one began. Nobody is served before
// all of the step has gone.
func (m *Machine) carryOut(began uint64) {
	for left := m.step(); left > 0; {
		t, ok := m.firstTeardown(began)
		if !ok {
			break
		}
		var cost int
		var done bool
		switch {
		case t.waits:
			cost, done = m.tearWaits(&t, left)
		case t.id.Number == 0:
			cost, done = m.tearProcess(&t, left)
		default:
			cost, done = m.tearSession(&t, left)
		}
		m.work += cost
		if left -= cost; done {
			m.toreDown(t)
		} else {
			m.teardowns.Set(t)
		}
	}
	m.settleNames()
}

// toreDown drops a teardown of which nothing is left. An older one of the same process may be there
// still.
func (m *Machine) toreDown(t teardown) {
	m.teardowns.Delete(t)
	n, ok := m.process(t.id.Node, t.id.Incarnation)
	if !ok || t.id.Number != 0 {
		return
	}
	upto := uint64(0)
	m.teardowns.Scan(func(o teardown) bool {
		if o.id == t.id && o.waits == t.waits {
			upto = max(upto, o.upto)
		}
		return true
	})
	if t.waits {
		n.withdrawn = upto
	} else {
		n.ended = upto
	}
	m.nodes.Set(n)
}

func (m *Machine) firstTeardown(began uint64) (first teardown, ok bool) {
	m.teardowns.Ascend(teardown{began: began}, func(t teardown) bool {
		first, ok = t, true
		return false
	})
	return first, ok
}

// tearSession takes claims of a session away, and in the end the session.
func (m *Machine) tearSession(t *teardown, most int) (cost int, done bool) {
	s := m.anySession(t.id)
	m.listClaims(s, 0, most/costOfClaim+1)
	for _, c := range m.claims {
		if cost >= most {
			return cost, false
		}
		cost += m.dropClaim(c, t.how)
	}
	if cost < most {
		runs := m.finished.dropSome(s.opened, most-cost)
		s.spans -= runs
		cost += costOfLook * runs
	}
	if cost >= most {
		return cost, false
	}
	m.sessions.Delete(sessionRef{id: s.id})
	if n, ok := m.process(s.id.Node, s.id.Incarnation); ok && n.lasting {
		m.letGo(n)
	}
	return cost + costOfClaim, true
}

// tearProcess ends sessions of a process.
func (m *Machine) tearProcess(t *teardown, most int) (cost int, done bool) {
	m.listSessions(t, most/costOfClaim+1)
	for _, s := range m.found {
		if cost >= most {
			return cost, false
		}
		t.number = s.id.Number
		cost += costOfLook
		if !s.ended && s.opened > t.from && s.opened <= t.upto {
			m.endSession(m.anySession(s.id), t.how, t.began)
			cost += costOfClaim
		}
	}
	return cost, len(m.found) == 0
}

// tearWaits withdraws what a process waits for, session by session. What ends with its session is
// left to that end.
func (m *Machine) tearWaits(t *teardown, most int) (cost int, done bool) {
	for cost < most {
		if m.listSessions(t, 1); len(m.found) == 0 {
			return cost, true
		}
		s := m.found[0]
		if s.id.Number != t.at { // the one that was there has ended
			t.at, t.after = s.id.Number, 0
		}
		m.claims = m.claims[:0]
		if !m.ended(s) {
			m.listClaims(s, t.after, most-cost+1)
		}
		for _, c := range m.claims {
			if cost >= most {
				return cost, false
			}
			t.after = c.request
			cost += costOfLook
			if c.token == 0 && c.index > t.from && c.index <= t.upto {
				m.finish(m.anySession(s.id), c.request)
				cost += m.dropClaim(c, t.how)
			}
		}
		if cost < most {
			t.number, t.at, t.after = s.id.Number, 0, 0
			cost += costOfLook
		}
	}
	return cost, false
}

// listSessions lists the next sessions of a teardown's process in m.found, at most so many.
func (m *Machine) listSessions(t *teardown, most int) {
	m.found = m.found[:0]
	from := t.id
	from.Number = t.number
	m.sessions.Ascend(sessionRef{id: from}, func(r sessionRef) bool {
		if r.id.Process() != from.Process() || len(m.found) == most {
			return false
		}
		if r.id.Number > t.number {
			m.found = append(m.found, r.s)
		}
		return true
	})
}

// listClaims lists claims of a session in m.claims, those of the requests after a number and at
// most so many.
func (m *Machine) listClaims(s *session, after uint64, most int) {
	m.claims = m.claims[:0]
	m.requests.Ascend(request{opened: s.opened, number: after}, func(r request) bool {
		if r.opened != s.opened || len(m.claims) == most {
			return false
		}
		if r.number > after {
			m.claims = append(m.claims, r.claim)
		}
		return true
	})
}

// dropClaim removes a claim, with the others of its set, and notes its locks in m.names. What is
// lost may rest. It returns what that costs.
func (m *Machine) dropClaim(c *claim, how ending) (cost int) {
	how = how.of(c)
	all := []*claim{c}
	if !c.alone() {
		all = c.more.set.claims
	}
	for _, c := range all {
		m.remove(c, how)
		m.names = append(m.names, c.name)
	}
	return len(all) * costOfClaim
}

// of is how a claim ends with its session.
func (how ending) of(c *claim) ending {
	switch {
	case c.token == 0:
		how.kind = EventWithdrawn
	case how.kind != 0: // said already
	case how.reason == ReasonClosed:
		how.kind = EventReleased
	default:
		how.kind = EventLost
		if c.more != nil {
			how.rest = c.more.delay
		}
	}
	return how
}

// endOf is the teardown that takes a session away.
func (m *Machine) endOf(s *session) (found teardown) {
	m.teardowns.Scan(func(t teardown) bool {
		whole := t.id.Number == 0 && !t.waits && t.id.Process() == s.id.Process() && s.opened > t.from && s.opened <= t.upto
		if t.id == s.id || whole && !s.ended {
			found = t
			return false
		}
		return true
	})
	return found
}

// settleNames serves who waits for the locks in m.names.
func (m *Machine) settleNames() {
	for _, name := range m.names {
		if l := m.lock(name); l != nil {
			m.settle(l)
		}
	}
	m.names = m.names[:0]
}

// Unfinished reports whether something that has ended is still there, or somebody is still to be
// served, and says where a Continue is to go on.
func (m *Machine) Unfinished() (last uint64, left bool) {
	return m.stepped, m.teardowns.Len()+m.unsettled.Len() > 0
}

func (Continue) op() op { return opContinue }

func (Continue) process() Process { return Process{} }

// AppendTo implements Command.
func (c Continue) AppendTo(b []byte) []byte {
	return appendUint(appendHeader(b, opContinue), 1, c.Last)
}

func (c *Continue) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		if f.number == 1 {
			c.Last = f.uint64()
		}
	}
	return f.err
}

func (c *Continue) command() Command { return *c }
