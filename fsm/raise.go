package fsm

// Raise says that no token up to Counter may be granted any more: an older state of the group may
// have been restored, and it does not know what was granted since. The counter never falls: a lower
// Counter changes nothing. CodeInvalid before Birth, and for more than TokenMax.
type Raise struct{ Counter uint64 }

func (Raise) op() op { return opRaise }

// AppendTo implements Command.
func (c Raise) AppendTo(b []byte) []byte {
	return appendUint(appendHeader(b, opRaise), 1, c.Counter)
}

func (c *Raise) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		if f.number == 1 {
			c.Counter = f.uint64()
		}
	}
	return f.err
}

func (c *Raise) command() Command { return *c }

func (Raise) process() Process { return Process{} }

func (m *Machine) raise(c *Raise) Outcome {
	if !m.born || c.Counter > m.limits.token {
		return Outcome{Code: CodeInvalid}
	}
	m.counter = max(m.counter, c.Counter)
	return Outcome{}
}
