package fsm

// Ask tells the holder of a token that it is asked to let go, and why: the holder's first
// EventWanted with Detail. Nothing else changes. CodeOK and no event if the holder was asked
// before: the first reason stays. CodeStaleToken when the token is no current grant of the lock,
// CodeInvalid without a reason, CodeValuesFull: the reasons count as values.
type Ask struct {
	Name   string
	Token  uint64
	Reason string
}

func (c *Ask) apply(m *Machine) Outcome {
	if !validLock(c.Name) || c.Reason == "" || !validLabel(c.Reason) {
		return Outcome{Code: CodeInvalid}
	}
	held := m.holder(m.lock(c.Name), c.Token)
	if held == nil || m.gone(held) {
		return Outcome{Code: CodeStaleToken}
	}
	if _, before := m.asked.Get(c.Token); before {
		return Outcome{}
	}
	if m.values+int64(len(c.Reason)) > m.limits.values {
		return Outcome{Code: CodeValuesFull}
	}
	m.asked.Set(c.Token, c.Reason)
	m.values += int64(len(c.Reason))
	if !held.alone() {
		held = held.more.set.claims[0] // by which its session knows the set
	}
	m.emit(EventWanted, held, ReasonNone).Detail = c.Reason
	return Outcome{}
}

// unask forgets why a holder was asked to let go. The bytes of the reason no longer count (I7).
func (m *Machine) unask(token uint64) {
	if reason, ok := m.asked.Delete(token); ok {
		m.values -= int64(len(reason))
	}
}

// Asked returns why the holder of a granted request is asked to let go, "" if it is not asked.
func (m *Machine) Asked(id SessionID, number uint64) string {
	if state, token := m.Request(id, number); state == RequestGranted {
		reason, _ := m.asked.Get(token)
		return reason
	}
	return ""
}
