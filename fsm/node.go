package fsm

import (
	"bytes"
	"math"
)

// node is one process of a node that the group knows, or the memory of one that is gone.
type node struct {
	id          Node
	incarnation uint64
	name        string
	place       Place
	born        uint64    // number of its Hello: owner of its used session numbers; 0 once it is over
	since       uint64    // number of its Hello, or of its return
	lowest      uint64    // lower session numbers are all used
	gone        uint64    // command by which it was superseded or removed, or said good-bye; 0: it is here
	spans       int       // of m.numbers
	over        bool      // it is gone and does not come back: it neither acquires nor renews
	departure   Departure // if it is over: what it said of its node
	back        bool      // that it leaves no longer counts: the fleet left as a whole, and goes on
	lasting     bool      // it is gone, and sessions of it are there
	ended       uint64    // not 0: its sessions that were opened up to this index have ended, a teardown sees to it
	withdrawn   uint64    // not 0: what it waited for up to this index is withdrawn, a teardown sees to it
	level       uint64    // highest that its process knows, as its Hello said
	client      bool      // its Hello came through the replica of another node
	returned    bool      // the process before it had said that the node leaves
}

// memory reports whether only the memory of it is left, which is dropped when there are too many.
func (n node) memory() bool { return n.gone != 0 && !n.lasting }

func lessNode(a, b node) bool {
	if c := bytes.Compare(a.id[:], b.id[:]); c != 0 {
		return c < 0
	}
	return a.incarnation < b.incarnation
}

// process finds the record of a process of a node.
func (m *Machine) process(id Node, incarnation uint64) (node, bool) {
	return m.nodes.Get(node{id: id, incarnation: incarnation})
}

// latest finds the record of the last process of a node that is remembered.
func (m *Machine) latest(id Node) (found node, ok bool) {
	m.nodes.Descend(node{id: id, incarnation: math.MaxUint64}, func(n node) bool {
		if ok = n.id == id; ok {
			found = n
		}
		return false
	})
	return found, ok
}

// present finds the record of a process that may acquire and renew, and says why if it may not.
func (m *Machine) present(id Node, incarnation uint64) (node, Code) {
	n, known := m.process(id, incarnation)
	switch {
	case known && n.over:
		return n, CodeStaleIncarnation
	case known:
		return n, CodeOK
	}
	if last, ok := m.latest(id); ok && (incarnation < last.incarnation || last.departure == Gone) {
		return n, CodeStaleIncarnation
	}
	return n, CodeUnknownNode
}

func (c *Hello) apply(m *Machine) Outcome {
	if c.Node == (Node{}) || c.Incarnation == 0 || !validText(c.Name, NameBytesMax) || len(c.Place.Boot) > BootBytesMax {
		return Outcome{Code: CodeInvalid}
	}
	last, known := m.latest(c.Node)
	switch {
	case known && (c.Incarnation < last.incarnation || last.departure == Gone),
		known && c.Incarnation == last.incarnation && last.over:
		return Outcome{Code: CodeStaleIncarnation}
	case known && c.Incarnation == last.incarnation:
		if last.client && !m.via { // it has a replica by now
			last.client = false
			m.nodes.Set(last)
		}
		return Outcome{}
	case max(c.Level, 1) < m.Level():
		return Outcome{Code: CodeTooOld}
	case (!known || last.gone != 0) && m.here >= m.roomFor(m.via):
		return Outcome{Code: CodeTooManyNodes}
	}
	if known && last.departure == Leaves && !m.inhabited() {
		m.resume()
	}
	if known {
		m.succeed(c)
	}
	n := m.fresh(c.Node, c.Incarnation)
	n.name, n.place, n.level, n.born, n.since = c.Name, c.Place, c.Level, m.commands, m.commands
	n.client, n.returned = m.via, known && last.departure == Leaves
	m.nodes.Set(n)
	m.here++
	return Outcome{}
}

// roomFor is how many nodes may be here for another to come: clients leave a tenth of the room to
// the nodes that make the group. Ids do not tell one from the other: both are bound to keys.
func (m *Machine) roomFor(client bool) int {
	if client {
		return m.limits.nodes - m.limits.nodes/10
	}
	return m.limits.nodes
}

// inhabited reports whether a node with a replica is here. It visits all nodes, and only the Hello
// of one that had left asks for it.
func (m *Machine) inhabited() (here bool) {
	m.nodes.Scan(func(n node) bool {
		here = n.gone == 0 && !n.client
		return !here
	})
	return here
}

// resume is for the first process that comes back when no node is here: all had said that they
// leave, so none was removed. They only closed, and the group goes on with those that return.
// Without this the first would have the others removed. A newcomer changes nothing: a leaving node
// may still wait for its removal.
func (m *Machine) resume() {
	var back []node
	m.nodes.Ascend(node{}, func(n node) bool {
		if n.departure == Leaves && !n.back {
			n.back = true
			back = append(back, n)
		}
		return true
	})
	for _, n := range back {
		m.nodes.Set(n)
	}
}

// succeed makes way for a later process of a node. Only a process that the Hello proves to be dead
// loses its grants now (S9). The others keep their grants until their TTL; their waiters are
// withdrawn (I10).
func (m *Machine) succeed(c *Hello) {
	for _, n := range m.processes(c.Node) {
		if c.Place.proves(n.place) {
			m.endSessions(n, m.commands, ending{reason: ReasonIncarnation})
		} else {
			m.withdrawAll(n, ReasonSuperseded)
		}
	}
	m.carryOut(m.commands)
	for _, n := range m.processes(c.Node) {
		if n = m.conclude(n); n.memory() { // that of its successor is as good
			m.forgotten--
			m.nodes.Delete(n)
		}
	}
}

// processes are the records of a node.
func (m *Machine) processes(id Node) (all []node) {
	m.nodes.Ascend(node{id: id}, func(n node) bool {
		if n.id == id {
			all = append(all, n)
		}
		return n.id == id
	})
	return all
}

// conclude makes a process one that is over: it neither renews nor acquires any more (I10). Its
// session numbers are forgotten: no later command of it opens one (I5).
func (m *Machine) conclude(n node) node {
	if n.over {
		return n
	}
	m.numbers.drop(n.born)
	n.over, n.born, n.since, n.lowest, n.spans = true, 0, 0, 0, 0
	return m.leave(n)
}

// leave records that a process is gone, and whether sessions of it remain (I10).
func (m *Machine) leave(n node) node {
	if n.gone == 0 {
		n.gone = m.commands
		m.here--
		n.lasting = m.hasSessions(n)
		if n.memory() {
			m.forgotten++
		}
	}
	m.nodes.Set(n)
	return n
}

// comeBack makes a removed process that asks for a lock one that is here.
func (m *Machine) comeBack(n node) (node, Code) {
	if n.gone == 0 {
		return n, CodeOK
	}
	switch {
	case m.here >= m.roomFor(n.client):
		return n, CodeTooManyNodes
	case max(n.level, 1) < m.Level():
		return n, CodeTooOld
	}
	if n.memory() {
		m.forgotten--
	}
	m.here++
	n.gone, n.since, n.lasting = 0, m.commands, false
	m.nodes.Set(n)
	return n, CodeOK
}

// fresh is the first record of a process. A teardown of an earlier record of it, which was dropped,
// may still exist: that goes on with the new record (I11).
func (m *Machine) fresh(id Node, incarnation uint64) node {
	of := SessionID{Node: id, Incarnation: incarnation}
	return node{id: id, incarnation: incarnation, ended: m.endsAt(of, false), withdrawn: m.endsAt(of, true)}
}

// goodbye ends a process that has ended its leases.
func (c *Goodbye) apply(m *Machine) Outcome {
	if c.Node == (Node{}) || c.Incarnation == 0 || c.Departure > Gone {
		return Outcome{Code: CodeInvalid}
	}
	m.endProcess(c) // first: with its last session it may become the memory that is dropped
	last, known := m.latest(c.Node)
	switch {
	case known && (c.Incarnation < last.incarnation || c.Incarnation > last.incarnation && last.departure == Gone):
		return Outcome{Code: CodeStaleIncarnation}
	case known && last.incarnation == c.Incarnation:
		last = m.conclude(last)
	default: // it cannot return, though its Hello was not seen
		m.succeed(&Hello{Node: c.Node})
		last = m.fresh(c.Node, c.Incarnation)
		last.gone, last.over = m.commands, true
		m.forgotten++
	}
	if c.Departure > last.departure {
		last.departure = c.Departure
		m.events = append(m.events, Event{
			Index: m.commands, Kind: EventDeparted, Session: SessionID{Node: c.Node, Incarnation: c.Incarnation}, NodeName: last.name,
		})
	}
	m.nodes.Set(last)
	m.boundMemory()
	return Outcome{}
}

// endProcess ends all sessions of a process that has said that it relies on none.
func (m *Machine) endProcess(c *Goodbye) {
	if n, ok := m.process(c.Node, c.Incarnation); ok {
		m.endSessions(n, m.commands, ending{reason: ReasonLeft})
		m.carryOut(m.commands)
	}
}

// apply records that a node has no replica. That proves nothing about its process, so its waiters
// alone are withdrawn (S9).
func (c *Remove) apply(m *Machine) Outcome {
	n, known := m.process(c.Node, c.Incarnation)
	switch {
	case c.Node == (Node{}) || c.Incarnation == 0 || c.Since == 0:
		return Outcome{Code: CodeInvalid}
	case !known || n.since != c.Since || n.gone != 0:
		return Outcome{Code: CodeFinished}
	}
	m.withdrawAll(m.leave(n), ReasonRemoved)
	m.carryOut(m.commands)
	m.boundMemory()
	return Outcome{}
}

// revoke ends all sessions of a node that were open at a command, whatever process they are of.
func (c *Revoke) apply(m *Machine) Outcome {
	if c.Node == (Node{}) || c.Reason == "" || !validText(c.Reason, LabelBytesMax) {
		return Outcome{Code: CodeInvalid}
	}
	for _, n := range m.processes(c.Node) {
		m.endSessions(n, c.Upto, ending{kind: EventForced, reason: ReasonRevoked, detail: c.Reason})
	}
	m.carryOut(m.commands)
	return Outcome{}
}

// hasSessions reports whether a session of a process is there.
func (m *Machine) hasSessions(n node) (open bool) {
	from := SessionID{Node: n.id, Incarnation: n.incarnation}
	m.sessions.Ascend(sessionRef{id: from}, func(r sessionRef) bool {
		open = r.id.Process() == from.Process()
		return false
	})
	return open
}

// letGo drops the record of a gone process after its last session (I10): only the memory of the
// last process of a node stays.
func (m *Machine) letGo(n node) {
	if m.hasSessions(n) {
		return
	}
	if last, _ := m.latest(n.id); last.incarnation > n.incarnation {
		m.nodes.Delete(n)
		return
	}
	n.lasting = false
	m.nodes.Set(n)
	m.forgotten++
	m.boundMemory()
}

// boundMemory drops the oldest memory when there is one too many (I7). It visits all nodes, which
// only happens when thousands have come and gone.
func (m *Machine) boundMemory() {
	if m.forgotten <= m.limits.forgotten {
		return
	}
	var oldest node
	m.nodes.Scan(func(n node) bool {
		if n.memory() && (oldest.gone == 0 || n.gone < oldest.gone) {
			oldest = n
		}
		return true
	})
	m.numbers.drop(oldest.born)
	m.nodes.Delete(oldest)
	m.forgotten--
}
