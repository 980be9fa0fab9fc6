package fsm

import "time"

func (c *Release) apply(m *Machine) Outcome {
	if !c.Session.valid() || c.Rest > RestMax || len(c.Grants) > ListMax {
		return Outcome{Code: CodeInvalid}
	}
	s := m.session(c.Session)
	if s == nil {
		return Outcome{Code: CodeNotHeld}
	}
	m.ack(s, c.Acked)
	var o Outcome
	for _, g := range c.Grants {
		held := m.heldBy(s, m.lock(g.Name), g.Token)
		if held == nil {
			o.Code = CodeNotHeld
			continue
		}
		m.end(s, held, ending{kind: EventReleased, reason: ReasonReleased, rest: uint64(c.Rest / time.Millisecond)})
	}
	if c.Close {
		m.endSession(s, ending{reason: ReasonClosed}, m.commands)
		m.carryOut(m.commands)
	}
	return o
}

// heldBy finds a session's grant of a lock by its token, nil if it is not current.
func (m *Machine) heldBy(s *session, l *lock, token uint64) *claim {
	if c := m.holder(l, token); c != nil && c.owner == s.owner {
		return c
	}
	return nil
}

func (c *SetValue) apply(m *Machine) Outcome {
	if !c.valid() {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		return Outcome{Code: CodeNotServing}
	}
	s := m.session(c.Session)
	if s == nil {
		return Outcome{Code: CodeSessionLost}
	}
	m.ack(s, c.Acked)
	if m.over(s, c.Request) {
		return Outcome{Code: CodeFinished}
	}
	if m.claimOf(s, c.Request) != nil {
		return Outcome{Code: CodeInvalid} // the number is an Acquire's
	}
	if !m.roomForRequest(s, c.Request) {
		return Outcome{Code: CodeTooManyRequests}
	}
	l := m.lock(c.Name)
	held := m.heldBy(s, l, c.Token)
	if held == nil {
		return Outcome{Code: CodeStaleToken} // forever: no need to remember it
	}
	grows := int64(len(c.Value)) - l.value.size()
	if grows > 0 && m.values+grows > m.limits.values {
		return Outcome{Code: CodeValuesFull} // not remembered: a finished write was carried out
	}
	if over := m.overValue(c.Session.Node, c.Name, c.Value, l.value); over != nil {
		return Outcome{Code: CodeOverQuota, Over: over}
	}
	m.finish(s, c.Request)
	m.write(l, held, newValue(c.Value, c.Session.Node))
	return Outcome{}
}

func (c *ForceRelease) apply(m *Machine) Outcome {
	if !c.valid() {
		return Outcome{Code: CodeInvalid}
	}
	held := m.holder(m.lock(c.Name), c.Token)
	if held == nil || m.gone(held) {
		return Outcome{Code: CodeStaleToken}
	}
	m.end(m.session(held.owner.id), held, ending{kind: EventForced, reason: ReasonForced, detail: c.Reason})
	return Outcome{}
}
