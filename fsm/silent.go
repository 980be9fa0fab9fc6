package fsm

import "time"

// SilentMax bounds the nodes that one Silent names.
const SilentMax = 64

// Silent is what the raft leader tells the others of whom it does not hear: they may be raft leader
// next, and a node that is silent for long is to be replaced, however often raft leaders change.
// Seen is how many commands the raft leader had applied: CodeFinished for what was seen before the
// last Silent. CodeInvalid for nobody, and for more than SilentMax.
type Silent struct {
	Seen  uint64
	Nodes []Silence
}

// Silence is for how long the replica of a node was not heard through Raft, in whole milliseconds.
// Zero: it is heard again.
type Silence struct {
	Node Node
	For  time.Duration
}

func (Silent) op() op { return opSilent }

func (Silent) process() Process { return Process{} }

// AppendTo implements Command.
func (c Silent) AppendTo(b []byte) []byte {
	b = appendUint(appendHeader(b, opSilent), 2, c.Seen)
	for _, s := range c.Nodes {
		b = appendMessage(b, 1, func(b []byte) []byte {
			return appendMillis(appendBytes(b, 1, s.Node[:]), 2, s.For)
		})
	}
	return b
}

func (c *Silent) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			var s Silence
			f.check(s.decode(f.message()))
			c.Nodes = append(c.Nodes, s)
		case 2:
			c.Seen = f.uint64()
		}
	}
	return f.err
}

func (s *Silence) decode(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			s.Node = f.id()
		case 2:
			s.For = f.millis()
		}
	}
	return f.err
}

func (c *Silent) command() Command { return *c }

func (m *Machine) silent(c *Silent) Outcome {
	switch {
	case len(c.Nodes) == 0 || len(c.Nodes) > SilentMax || c.Seen == 0 || c.Seen >= m.commands:
		return Outcome{Code: CodeInvalid}
	case c.Seen <= m.silentSeen:
		return Outcome{Code: CodeFinished}
	}
	m.silentSeen = c.Seen
	for _, s := range c.Nodes {
		m.events = append(m.events, Event{
			Index: m.commands, Kind: EventSilent, Session: SessionID{Node: s.Node}, TTL: s.For,
		})
	}
	return Outcome{}
}
