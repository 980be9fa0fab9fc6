package fsm

import (
	"bytes"
	"time"
)

// A large end is carried out in steps, so that other commands come between. The command that ends a
// session emits EventSessionEnded, and from then on the session neither renews, acquires, writes
// nor releases, and none of its tokens is a current grant. Its grants stay taken until a step
// removes them and serves their waiters. Its own waiters are never granted, and no later waiter
// overtakes them.
//
// The same holds for a single lock with many waiters: of ten thousand readers behind a writer, or
// the waiters for a finished Once key, each command serves or withdraws as many as a step allows,
// and no claim overtakes the others.

// Continue takes the next step of the teardowns, and serves waiters of unsettled locks. Last is
// that of Machine.Unfinished. CodeFinished if another step was taken since then, or nothing is
// left.
type Continue struct{ Last uint64 }

// teardown is the rest of an end: the claims of a session, or the sessions of a process, or all
// waiters of a process. A session of the process has a teardown of its own as soon as its end is
// emitted (I11).
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

// ended reports whether a session that exists has ended (I11).
func (m *Machine) ended(s *session) bool {
	if m.teardowns.Len() == 0 || s.ended {
		return s.ended
	}
	n, _ := m.process(s.id.Node, s.id.Incarnation)
	return s.opened <= n.ended
}

// gone reports whether a later step removes a claim: its session has ended, or the waiters of its
// process were withdrawn (I10).
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

// endSession ends a session; carryOut must follow. began is the number of the command that ends it.
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

// withdrawAll withdraws all waiters of a process, which keeps its grants; carryOut must follow
// (I10, I11).
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

func (c *Continue) apply(m *Machine) Outcome {
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

// carryOut takes one step of the ends that a command or a later one began. No waiter is served
// before the whole step is done.
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

// toreDown drops an empty teardown (I11). An older one of the same process may still exist.
func (m *Machine) toreDown(t teardown) {
	m.teardowns.Delete(t)
	n, ok := m.process(t.id.Node, t.id.Incarnation)
	if !ok || t.id.Number != 0 {
		return
	}
	if t.waits {
		n.withdrawn = m.endsAt(t.id, true)
	} else {
		n.ended = m.endsAt(t.id, false)
	}
	m.nodes.Set(n)
}

// endsAt is up to which command the teardowns of a process as a whole end its sessions, or what
// waits for them; 0 without any.
func (m *Machine) endsAt(id SessionID, waits bool) (upto uint64) {
	m.teardowns.Scan(func(t teardown) bool {
		if t.id == id && t.waits == waits {
			upto = max(upto, t.upto)
		}
		return true
	})
	return upto
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
	m.takes(s.id.Node, use{sessions: -1})
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

// tearWaits withdraws the waiters of a process, session by session. The claims of an ended session
// are left to its own teardown.
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

// dropClaim removes a claim, with the others of its set (I9), and adds its locks to m.names. A lost
// grant may rest. It returns the cost.
func (m *Machine) dropClaim(c *claim, how ending) (cost int) {
	how = how.of(c)
	all := c.all()
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
		how.rest = uint64(c.Delay / time.Millisecond)
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

// settleNames serves the waiters of the locks in m.names (I4).
func (m *Machine) settleNames() {
	for _, name := range m.names {
		if l := m.lock(name); l != nil {
			m.settle(l)
		}
	}
	m.names = m.names[:0]
}

// Unfinished reports whether a teardown or an unsettled lock is left, and returns where a Continue
// goes on.
func (m *Machine) Unfinished() (last uint64, left bool) {
	return m.stepped, m.teardowns.Len()+m.unsettled.Len() > 0
}
