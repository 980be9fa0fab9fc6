package fsm

// Ask tells a holder, whoever that is, that it is asked to let go, and why: its first EventWanted
// with Detail. Nothing else changes. CodeOK and no event if it was asked before: the first reason
// stays. CodeStaleToken when the token is no current grant of the lock, CodeInvalid without a
// reason, CodeValuesFull: the reasons count as values.
type Ask struct {
	Name   string
	Token  uint64
	Reason string
}

func (Ask) op() op { return opAsk }

func (Ask) process() Process { return Process{} }

// AppendTo implements Command.
func (c Ask) AppendTo(b []byte) []byte {
	b = appendText(appendHeader(b, opAsk), 1, c.Name)
	b = appendUint(b, 2, c.Token)
	return appendText(b, 3, c.Reason)
}

func (c *Ask) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.Name = f.text()
		case 2:
			c.Token = f.uint64()
		case 3:
			c.Reason = f.text()
		}
	}
	return f.err
}

func (c *Ask) command() Command { return *c }

func (m *Machine) ask(c *Ask) Outcome {
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

// unask forgets why a holder was asked to let go.
func (m *Machine) unask(token uint64) {
	if reason, ok := m.asked.Delete(token); ok {
		m.values -= int64(len(reason))
	}
}

// Asked is why the holder that a request came to is asked to let go, "" if it is not.
func (m *Machine) Asked(id SessionID, number uint64) string {
	if state, token := m.Request(id, number); state == RequestGranted {
		reason, _ := m.asked.Get(token)
		return reason
	}
	return ""
}
