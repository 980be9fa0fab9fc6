package fsm

// node is one process run that the group knows, or the memory of one that is gone.
type node struct {
	id          Node
	incarnation uint64
	name        string
	born        uint64 // index of this incarnation's Hello: owner of its used session numbers
	lowest      uint64 // lower session numbers are all used
	forgotten   uint64 // index of its Forget; 0: it is here
	spans       int    // of m.numbers
}

func (m *Machine) birth(c *Birth) Outcome {
	switch {
	case c.Cluster == [16]byte{} || c.Counter > m.limits.token || c.Voters > c.Bootstrap:
		return Outcome{Code: CodeInvalid}
	case m.born && c.Cluster != m.cluster:
		return Outcome{Code: CodeInvalid}
	case !m.born:
		m.born, m.cluster, m.counter = true, c.Cluster, c.Counter
		m.bootstrap, m.voters = c.Bootstrap, c.Voters
		m.events = append(m.events, Event{Index: m.applied, Kind: EventBorn})
	}
	return Outcome{}
}

func (m *Machine) serve() Outcome {
	if !m.born {
		return Outcome{Code: CodeInvalid}
	}
	if !m.serving {
		m.serving = true
		m.events = append(m.events, Event{Index: m.applied, Kind: EventServing})
	}
	return Outcome{}
}

func (m *Machine) hello(c *Hello) Outcome {
	if c.Node == (Node{}) || c.Incarnation == 0 || !validText(c.Name, NameBytesMax) {
		return Outcome{Code: CodeInvalid}
	}
	n, known := m.nodes.Get(node{id: c.Node})
	switch {
	case known && c.Incarnation < n.incarnation,
		known && c.Incarnation == n.incarnation && n.forgotten != 0:
		return Outcome{Code: CodeStaleIncarnation}
	case known && c.Incarnation == n.incarnation:
		return Outcome{}
	case (!known || n.forgotten != 0) && m.nodes.Len()-m.forgotten >= m.limits.nodes:
		return Outcome{Code: CodeTooManyNodes}
	}
	if known {
		m.endNode(n, ReasonIncarnation)
	}
	m.nodes.Set(node{id: c.Node, incarnation: c.Incarnation, name: c.Name, born: m.applied})
	return Outcome{}
}

func (m *Machine) forget(c *Forget) Outcome {
	if c.Node == (Node{}) || c.Incarnation == 0 {
		return Outcome{Code: CodeInvalid}
	}
	n, known := m.nodes.Get(node{id: c.Node})
	if known {
		if c.Incarnation < n.incarnation {
			return Outcome{Code: CodeStaleIncarnation}
		}
		if c.Incarnation == n.incarnation && n.forgotten != 0 {
			return Outcome{}
		}
		m.endNode(n, ReasonForgotten)
	}
	m.nodes.Set(node{id: c.Node, incarnation: c.Incarnation, forgotten: m.applied})
	m.forgotten++
	if m.forgotten > m.limits.forgotten {
		m.dropOldestForgotten()
	}
	return Outcome{}
}

// endNode ends a node's sessions and forgets its session numbers. The caller replaces its record.
func (m *Machine) endNode(n node, reason Reason) {
	if n.forgotten != 0 {
		m.forgotten--
		return
	}
	from := sessionRef{id: SessionID{Node: n.id}}
	m.sessions.Ascend(from, func(r sessionRef) bool {
		if r.id.Node != n.id {
			return false
		}
		m.ended = append(m.ended, r.s)
		return true
	})
	m.endSessions(m.ended, reason)
	m.numbers.drop(n.born)
}

// dropOldestForgotten makes room for a newly forgotten node. It looks at all nodes, which only happens
// when thousands have come and gone.
func (m *Machine) dropOldestForgotten() {
	var oldest node
	m.nodes.Scan(func(n node) bool {
		if n.forgotten != 0 && (oldest.forgotten == 0 || n.forgotten < oldest.forgotten) {
			oldest = n
		}
		return true
	})
	m.nodes.Delete(oldest)
	m.forgotten--
}

// present finds the record of a node's incarnation, and says why if it is not the present one.
func (m *Machine) present(id Node, incarnation uint64) (node, Code) {
	n, known := m.nodes.Get(node{id: id})
	switch {
	case !known || incarnation > n.incarnation:
		return n, CodeUnknownNode
	case incarnation < n.incarnation || n.forgotten != 0:
		return n, CodeStaleIncarnation
	}
	return n, CodeOK
}
