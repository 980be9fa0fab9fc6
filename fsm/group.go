package fsm

import "time"

func (c *Birth) apply(m *Machine) Outcome {
	switch {
	case c.Cluster == [16]byte{} || c.Counter > m.limits.token || c.Voters > c.Bootstrap:
		return Outcome{Code: CodeInvalid}
	case m.born && c.Cluster != m.cluster:
		return Outcome{Code: CodeInvalid}
	case !m.born:
		m.born, m.cluster, m.counter = true, c.Cluster, c.Counter
		m.bootstrap, m.voters = c.Bootstrap, c.Voters
		m.events = append(m.events, Event{Index: m.commands, Kind: EventBorn})
	}
	return Outcome{}
}

func (*Serve) apply(m *Machine) Outcome {
	if !m.born {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		m.serving, m.holdoff = true, 0
		m.events = append(m.events, Event{Index: m.commands, Kind: EventServing})
	}
	return Outcome{}
}

// Raise says that no token up to Counter may be granted any more: an older state of the group may
// have been restored, and that state does not know the tokens granted since. The counter never
// falls (I2): a lower Counter changes nothing. CodeInvalid before Birth, and for a Counter that
// leaves the waiters without a token up to TokenMax.
type Raise struct{ Counter uint64 }

func (c *Raise) apply(m *Machine) Outcome {
	if !m.born || c.Counter > m.limits.token || c.Counter+uint64(m.waiters.Len()) > m.limits.token && c.Counter > m.counter {
		return Outcome{Code: CodeInvalid}
	}
	m.counter = max(m.counter, c.Counter)
	return Outcome{}
}

// RaiseTTL raises the bound on the TTLs of the group's sessions, TTLMin to TTLMax in whole
// milliseconds. A process proposes it before its Hello: an Acquire or Keep with a TTL above the bound
// is answered CodeInvalid. The bound never falls: a lower TTL changes nothing. Before the first
// RaiseTTL the bound is TTLMax, and the sessions of that time keep their TTLs.
type RaiseTTL struct{ TTL time.Duration }

func (c *RaiseTTL) apply(m *Machine) Outcome {
	if c.TTL < TTLMin || c.TTL > TTLMax {
		return Outcome{Code: CodeInvalid}
	}
	m.maxTTL = max(m.maxTTL, c.TTL)
	return Outcome{}
}

// longestTTL is the longest TTL that the group accepts.
func (g *group) longestTTL() time.Duration {
	if g.maxTTL == 0 {
		return TTLMax
	}
	return g.maxTTL
}

// Evict is an operator's order that the raft leader removes the replica of a node, whose process is
// dead: it ends no session (S9). Seen is how many commands its proposer had applied: CodeFinished
// where another Evict was carried out since. With a Refusal it is the raft leader's word that it
// refuses the order of number Seen: CodeFinished if that is not the last Evict. CodeInvalid for an
// order without words, and for a refusal with words.
type Evict struct {
	Node    Node
	Seen    uint64
	Reason  string // the operator's words
	Refusal Reason // ReasonNone, ReasonHeard or ReasonLast
}

func (c *Evict) apply(m *Machine) Outcome {
	refuses := c.Refusal == ReasonHeard || c.Refusal == ReasonLast
	switch {
	case c.Node == (Node{}) || c.Seen == 0 || c.Seen >= m.commands || !validText(c.Reason, LabelBytesMax),
		refuses == (c.Reason != ""), !refuses && c.Refusal != ReasonNone:
		return Outcome{Code: CodeInvalid}
	case c.Seen < m.evicted, refuses && c.Seen != m.evicted:
		return Outcome{Code: CodeFinished}
	}
	m.evicted = m.commands
	e := Event{Index: m.commands, Kind: EventEvict, Session: SessionID{Node: c.Node}, Reason: c.Refusal, Detail: c.Reason}
	if refuses {
		e.Request = c.Seen
	}
	m.events = append(m.events, e)
	return Outcome{}
}

// SilentMax bounds the nodes that one Silent names. Part of the replicated machine.
const SilentMax = 64

// Silent tells the other replicas which replicas the raft leader does not hear: one of them may be
// raft leader next, and a node that is silent for long is to be replaced, however often raft
// leaders change. Seen is how many commands the raft leader had applied: CodeFinished for a Seen
// before the last Silent. CodeInvalid for no nodes, and for more than SilentMax.
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

func (c *Silent) apply(m *Machine) Outcome {
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
