package fsm

import (
	"errors"
	"fmt"
)

// Recovery says what becomes of a state whose group has lost its majority for good.
type Recovery struct {
	Cluster    [16]byte // id of the group that goes on with the state
	Counter    uint64   // no token up to it may be granted any more
	AllStopped bool     // no process of the former group runs: its leases need not be waited for
}

// ErrUnborn is in the error of Recover for a state without a Birth.
var ErrUnborn = errors.New("holdfast: the state is that of no group")

// Recover makes the state that of another group, which has one replica so far and an empty log.
// Values, finished Once keys, past grants and rests stay. All sessions have ended as if they had not
// been renewed, so no holder or waiter is left, and no process of the former group is on record. The
// numbers of commands go on. The group does not serve: Info.Wait is for how long its first Serve is
// to wait after the group was opened, because a holder of the former group may rely on its lease for
// so long. Recover is no command: it comes before the first one.
func (m *Machine) Recover(r Recovery) error {
	counter := max(m.counter, r.Counter)
	switch {
	case !m.born:
		return ErrUnborn
	case r.Cluster == [16]byte{} || r.Cluster == m.cluster:
		return errors.New("holdfast: the recovered group needs an id of its own")
	case counter > m.limits.token:
		return fmt.Errorf("holdfast: there is no token above %d", counter)
	}
	wait := m.longestTTL()
	m.sessions.Scan(func(s sessionRef) bool { wait = max(wait, s.s.ttl); return true })
	m.endAll()
	m.nodes, m.numbers, m.here, m.forgotten = newTree(lessNode), newSpans(), 0, 0
	m.cluster, m.counter, m.serving, m.holdoff = r.Cluster, counter, false, wait
	m.bootstrap, m.voters, m.applied, m.silentSeen = 1, 1, 0, 0
	if r.AllStopped {
		m.holdoff = 0
	}
	return m.sound()
}

// endAll ends every session. All have ended before the first step, so no waiter is granted.
func (m *Machine) endAll() {
	var all []node
	m.nodes.Scan(func(n node) bool { all = append(all, n); return true })
	m.commands++
	for _, n := range all {
		n, _ = m.process(n.id, n.incarnation)
		m.endSessions(n, m.commands, ending{reason: ReasonExpired})
	}
	for last, left := m.Unfinished(); left; last, left = m.Unfinished() {
		m.commands++
		m.tidy()
		m.work, m.left, m.events = 0, m.step(), m.events[:0]
		(&Continue{last}).apply(m)
	}
	m.events = nil
}
