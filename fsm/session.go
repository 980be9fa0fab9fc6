package fsm

import "time"

// session is one open session.
type session struct {
	*owner
	ttl     time.Duration
	renewed uint64 // command of the last renewal
	seq     uint64 // Keep.Seq of the last renewal
	acked   uint64 // lower request numbers are all over, as far as the client cares
	spans   int    // of m.finished
	heard   bool   // some of them are below acked
	ended   bool   // a teardown takes it away (I11)
	epoch   uint64
}

// owner is what never changes about a session; its claims point here.
type owner struct {
	id       SessionID
	opened   uint64 // command of its opening: unique, and shorter than the id
	nodeName string
}

// session finds an open session and makes it the own copy of this machine; nil if there is none.
func (m *Machine) session(id SessionID) *session {
	if s := m.recent; s != nil && s.epoch == m.epoch && s.id == id {
		return s
	}
	s := m.anySession(id)
	if s == nil || m.ended(s) {
		return nil
	}
	m.recent = s
	return s
}

// anySession is session for one that may have ended.
func (m *Machine) anySession(id SessionID) *session {
	ref, ok := m.sessions.Get(sessionRef{id: id})
	if !ok {
		return nil
	}
	if ref.s.epoch != m.epoch {
		mine := *ref.s
		mine.epoch = m.epoch
		ref.s = &mine
		m.sessions.Set(ref)
	}
	return ref.s
}

// look finds an open session to be read; false if there is none.
func (m *Machine) look(id SessionID) (*session, bool) {
	ref, ok := m.sessions.Get(sessionRef{id: id})
	if !ok || m.ended(ref.s) {
		return nil, false
	}
	return ref.s, true
}

// claimOf finds the live claim of a session's request, nil if there is none.
func (m *Machine) claimOf(s *session, number uint64) *claim {
	r, _ := m.requests.Get(request{opened: s.opened, number: number})
	return r.claim
}

// open finds a session, or opens it if its number was never used (I5) and its process is on record
// (I3).
func (m *Machine) open(id SessionID, ttl time.Duration) (*session, Outcome) {
	n, code := m.present(id.Node, id.Incarnation)
	if code != CodeOK {
		return nil, Outcome{Code: code}
	}
	if s := m.session(id); s != nil {
		return s, Outcome{}
	}
	over := m.overSessions(id.Node)
	switch {
	case m.used(n, id.Number):
		return nil, Outcome{Code: CodeSessionLost}
	case !m.roomForSession(n, id.Number): // not if the node counts its sessions up
		return nil, Outcome{Code: CodeTooManySessions}
	case ttl < TTLMin:
		m.spend(n, id.Number)
		return nil, Outcome{Code: CodeSessionLost}
	case m.sessions.Len() >= m.limits.sessions:
		return nil, Outcome{Code: CodeTooManySessions}
	case over != nil:
		return nil, Outcome{Code: CodeSessionsOverQuota, Over: over}
	}
	if n, code = m.comeBack(n); code != CodeOK {
		return nil, Outcome{Code: code}
	}
	m.spend(n, id.Number)
	s := &session{
		owner: &owner{id: id, opened: m.commands, nodeName: n.name},
		ttl:   ttl, renewed: m.commands, epoch: m.epoch,
	}
	m.sessions.Set(sessionRef{id, s})
	m.takes(id.Node, use{sessions: 1})
	m.emitRenewed(s)
	return s, Outcome{}
}

// used reports whether a session number was opened before, or may never be.
func (m *Machine) used(n node, number uint64) bool {
	return number < n.lowest || m.numbers.contains(n.born, number)
}

// spend uses up a session number.
func (m *Machine) spend(n node, number uint64) {
	n.spans += m.numbers.insert(n.born, number)
	m.nodes.Set(n)
}

// retire uses up a number that is not open, so that it never opens (I5). CodeOK also if it was used
// before.
func (m *Machine) retire(id SessionID) Code {
	n, code := m.present(id.Node, id.Incarnation)
	if code != CodeOK || m.used(n, id.Number) {
		return code
	}
	if !m.roomForSession(n, id.Number) {
		return CodeTooManySessions
	}
	m.spend(n, id.Number)
	return CodeOK
}

// ack records that the client has heard the answers to lower numbers, and forgets these. The next
// command forgets those that are more than one command may.
func (m *Machine) ack(s *session, acked uint64) {
	if acked <= s.acked && !s.heard {
		return
	}
	s.acked = max(s.acked, acked)
	gone := m.finished.prune(s.opened, s.acked, m.limits.prune)
	s.spans -= gone
	s.heard = gone == m.limits.prune && m.finished.startsBelow(s.opened, s.acked)
	m.work += costOfLook * gone
}

// over reports whether a request that is not live has been answered for good.
func (m *Machine) over(s *session, number uint64) bool {
	return number < s.acked || m.finished.contains(s.opened, number)
}

// finish remembers that a request is over, for as long as a duplicate of it may come (I5); s is nil
// if its session has ended.
func (m *Machine) finish(s *session, number uint64) {
	if s != nil && number >= s.acked {
		s.spans += m.finished.insert(s.opened, number)
	}
}

// roomForRequest reports whether a request not seen before can be remembered. The end of an
// admitted request is always remembered: live requests are bounded too. A number next to a run takes no
// room: else a session that is full of runs could not fill the gaps between them.
func (m *Machine) roomForRequest(s *session, number uint64) bool {
	return s.spans < m.limits.spans && m.finished.tree.Len() < m.limits.spansTotal || m.finished.touches(s.opened, number)
}

// roomForSession is the same for a session number.
func (m *Machine) roomForSession(n node, number uint64) bool {
	return n.spans < m.limits.numbers || m.numbers.touches(n.born, number)
}

func (c *Keep) apply(m *Machine) Outcome {
	if !c.valid() || c.TTL > m.longestTTL() {
		return Outcome{Code: CodeInvalid}
	}
	n, code := m.present(c.Node, c.Incarnation)
	if code != CodeOK {
		return Outcome{Code: code}
	}
	if c.Lowest > n.lowest {
		n.lowest = c.Lowest
		n.spans -= m.numbers.prune(n.born, n.lowest, NumbersMax)
		m.nodes.Set(n)
	}
	out := Outcome{}
	for _, number := range c.Sessions {
		id := SessionID{c.Node, c.Incarnation, number}
		s := m.session(id)
		switch {
		case s == nil:
			m.retire(id) // the client takes it for lost: no late Acquire may open it (I5)
			out.Lost = append(out.Lost, number)
		case c.Seq > s.seq:
			s.seq, s.renewed = c.Seq, m.commands
			if c.TTL != 0 {
				s.ttl = c.TTL
			}
			m.emitRenewed(s)
		case c.Seq < s.seq && c.TTL != 0: // its sender may have been told of the TTL that the later one brought
			out.Code = CodeFinished
		}
	}
	return out
}

func (m *Machine) emitRenewed(s *session) {
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventSessionRenewed, Session: s.id, TTL: s.ttl, NodeName: s.nodeName,
	})
}

func (c *CloseSession) apply(m *Machine) Outcome {
	if !c.Session.valid() {
		return Outcome{Code: CodeInvalid}
	}
	s := m.session(c.Session)
	if s == nil {
		return Outcome{Code: m.retire(c.Session)}
	}
	how := ending{reason: ReasonClosed}
	if c.Lost {
		how.reason = ReasonAbandoned
	}
	m.endSession(s, how, m.commands)
	m.carryOut(m.commands)
	return Outcome{}
}

func (c *Expire) apply(m *Machine) Outcome {
	if !c.Session.valid() {
		return Outcome{Code: CodeInvalid}
	}
	s := m.session(c.Session)
	if s == nil {
		return Outcome{Code: CodeSessionLost}
	}
	if c.Renewed != s.renewed {
		return Outcome{Code: CodeFinished}
	}
	m.endSession(s, ending{reason: ReasonExpired}, m.commands)
	m.carryOut(m.commands)
	return Outcome{}
}
