package fsm

func (m *Machine) birth(c *Birth) Outcome {
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

func (m *Machine) serve() Outcome {
	if !m.born {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		m.serving = true
		m.events = append(m.events, Event{Index: m.commands, Kind: EventServing})
	}
	return Outcome{}
}
