package fsm

import (
	"iter"
	"math"
	"slices"
	"strings"
)

// Applied is the log index of the entry that was applied last.
func (m *Machine) Applied() uint64 { return m.applied }

// Commands is how many commands were applied: the number of the last one.
func (m *Machine) Commands() uint64 { return m.commands }

// Info is the state in numbers.
func (m *Machine) Info() Info {
	return Info{
		Cluster: m.cluster, Born: m.born, Serving: m.serving, Level: m.Level(),
		Counter: m.counter, Applied: m.applied, Commands: m.commands, Bootstrap: m.bootstrap, Voters: m.voters,
		Locks: m.locks.Len(), Grants: m.grants, Waiters: m.waiters.Len(),
		Sessions: m.sessions.Len(), Nodes: m.here, ValueBytes: m.values,
		Rests: m.rests.Len(), Keys: m.keys.Len(), MaxTTL: m.maxTTL, Wait: m.holdoff,
	}
}

// Lock returns the state of one name; false if it has no holder, waiter, rest or value. The slices
// belong to the caller.
func (m *Machine) Lock(name string) (Lock, bool) {
	l, ok := m.locks.Get(name)
	if !ok {
		return Lock{}, false
	}
	return m.view(l), true
}

// Head is Lock without its queue: the first holder, the value, and how many wait. False if the lock
// has no holder. It costs the same beside ten thousand waiters.
func (m *Machine) Head(name string) (h Head, held bool) {
	l, ok := m.locks.Get(name)
	if !ok {
		return Head{}, false
	}
	first := m.firstHolder(l)
	if first == nil {
		return Head{}, false
	}
	h = Head{Holder: first.view(), Waiters: int(l.waiters)}
	if l.value != nil {
		h.Value = []byte(l.value.text)
	}
	return h, true
}

// InUse returns the limit of the semaphore that a name is in use as, 0 for a lock. False if the
// name has no holder, waiter or rest: then the limit is that to which it was resized, if it was. It
// is as cheap as Head.
func (m *Machine) InUse(name string) (limit uint32, used bool) {
	l, ok := m.locks.Get(name)
	if !ok || !l.inUse() {
		r, _ := m.resizes.Get(name)
		return r.limit, false
	}
	return l.limit, true
}

// Locks are the locks whose names start with prefix, in the order of their names; Once keys are not
// among them. The machine must not change meanwhile: iterate over a Fork.
func (m *Machine) Locks(prefix string) iter.Seq[Lock] {
	return func(yield func(Lock) bool) {
		m.locks.Ascend(max(prefix, afterOnce), func(name string, l *lock) bool {
			return strings.HasPrefix(name, prefix) && yield(m.view(l))
		})
	}
}

// Granted says whether the token is a current grant of the lock.
func (m *Machine) Granted(name string, token uint64) bool {
	c := m.grantOf(name, token)
	return c != nil && !m.gone(c)
}

// grantOf finds the holder of a lock by its token, nil if there is none. Reads may run at the same
// time as each other.
func (m *Machine) grantOf(name string, token uint64) *claim {
	l, ok := m.locks.Get(name)
	if !ok || token == 0 {
		return nil
	}
	c := l.holder
	if c == nil {
		c, _ = m.shared.Get(&claim{name: name, token: token})
	}
	if c == nil || c.token != token {
		return nil
	}
	return c
}

// Cost is how many claims an encoded Release gives back, as far as this state tells, at least one; of
// any other command it is what Cost says.
func (m *Machine) Cost(cmd []byte) (claims int) {
	claims, least := Cost(cmd)
	if !least || m.sets == 0 {
		return claims
	}
	cmd, _ = cutVia(cmd)
	var release Release
	_ = read(cmd[2:], &release) // Apply looks at its form
	for _, g := range release.Grants {
		if c := m.grantOf(g.Name, g.Token); c != nil && !c.alone() {
			claims += len(c.more.set.claims) - 1
		}
	}
	return claims
}

// SessionEnded says whether a session has ended, or can never be opened.
func (m *Machine) SessionEnded(id SessionID) bool {
	if _, open := m.look(id); open {
		return false
	}
	n, code := m.present(id.Node, id.Incarnation)
	return code != CodeUnknownNode && (code != CodeOK || m.used(n, id.Number))
}

// Request is what became of a request, and its token if it was granted.
func (m *Machine) Request(id SessionID, number uint64) (state RequestState, token uint64) {
	s, ok := m.look(id)
	switch {
	case !ok && m.SessionEnded(id):
		return RequestSessionLost, 0
	case !ok:
		return RequestUnknown, 0
	}
	live := m.claimOf(s, number)
	switch {
	case live != nil && live.token != 0:
		return RequestGranted, live.token
	case live != nil:
		return RequestWaiting, 0
	case m.over(s, number):
		return RequestFinished, 0
	}
	return RequestUnknown, 0
}

// Wanted reports whether a request holds a lock, and has been told that the lock is wanted
// (EventWanted).
func (m *Machine) Wanted(id SessionID, number uint64) bool {
	s, open := m.look(id)
	if !open {
		return false
	}
	held := m.claimOf(s, number)
	if held == nil || held.token == 0 {
		return false
	}
	return slices.ContainsFunc(held.all(), func(c *claim) bool {
		l, ok := m.locks.Get(c.name)
		return ok && c.token <= l.told
	})
}

// Session is one open session; false if there is none of that id.
func (m *Machine) Session(id SessionID) (Session, bool) {
	s, ok := m.look(id)
	if !ok {
		return Session{}, false
	}
	return Session{ID: id, TTL: s.ttl, Renewed: s.renewed}, true
}

// Sessions are the open sessions by node, incarnation and number. The machine must not change
// meanwhile.
func (m *Machine) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		m.sessions.Scan(func(r sessionRef) bool {
			return m.ended(r.s) || yield(Session{ID: r.id, TTL: r.s.ttl, Renewed: r.s.renewed})
		})
	}
}

// Nodes are the processes that may acquire and renew, one of a node at most, by node. The machine
// must not change meanwhile.
func (m *Machine) Nodes() iter.Seq[NodeRecord] {
	return func(yield func(NodeRecord) bool) {
		m.nodes.Scan(func(n node) bool {
			return n.over || yield(NodeRecord{
				Node: n.id, Incarnation: n.incarnation, Name: n.name, Place: n.place, Since: n.since, Gone: n.gone != 0,
				Idle: n.id.Bound() && !m.hasSessions(n), Lasting: n.lasting, Level: max(n.level, 1),
			})
		})
	}
}

// Renewed is the number of the command that renewed a session of a process last, 0 if it has none.
func (m *Machine) Renewed(id Node, incarnation uint64) (last uint64) {
	of := SessionID{Node: id, Incarnation: incarnation}
	m.sessions.Ascend(sessionRef{id: of}, func(r sessionRef) bool {
		if r.id.Process() != of.Process() {
			return false
		}
		if !m.ended(r.s) {
			last = max(last, r.s.renewed)
		}
		return true
	})
	return last
}

// Incarnation is the highest that the node has said Hello or Goodbye with; false if it is not
// remembered.
func (m *Machine) Incarnation(id Node) (uint64, bool) {
	n, ok := m.latest(id)
	return n.incarnation, ok
}

// Departed is whether a node stays in the group, by its last Goodbye, as far as that is remembered.
func (m *Machine) Departed(id Node) Departure {
	n, _ := m.latest(id)
	if n.back && n.departure == Leaves {
		return Stays
	}
	return n.departure
}

// MayGo reports whether a node leaves, or its process before had said so: the raft leader may have proposed
// to remove its replica before it heard of the return, and that is not taken back.
func (m *Machine) MayGo(id Node) bool {
	n, _ := m.latest(id)
	return m.Departed(id) == Leaves || n.returned
}

func (m *Machine) view(l *lock) Lock {
	v := Lock{
		Name: l.name, Mode: l.mode, LastToken: l.last, Wanted: m.wanted(l),
		Holders: make([]Holder, 0, l.holders), Waiters: make([]Holder, 0, l.waiters),
	}
	v.Limit, v.Former = m.limitsOf(l)
	for c := range m.holdersOf(l) {
		v.Holders = append(v.Holders, c.view())
	}
	for c := range m.waitersOf(l) {
		v.Waiters = append(v.Waiters, c.view())
	}
	if l.value != nil {
		v.Value = []byte(l.value.text)
	}
	if l.resting > 0 {
		for r := range m.restsOf(l) {
			v.Rests = append(v.Rests, r.view())
		}
	}
	return v
}

func (c *claim) view() Holder {
	return Holder{
		Session: c.owner.id, Request: c.request, NodeName: c.owner.nodeName, Terms: c.Terms, Token: c.token, Granted: c.index,
	}
}

// holdersOf are the holders in the order of their tokens.
func (m *Machine) holdersOf(l *lock) iter.Seq[*claim] { return m.holdersFrom(l, 0) }

// holdersFrom are the holders from a token on, in the order of their tokens.
func (m *Machine) holdersFrom(l *lock, token uint64) iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		if l.holder != nil {
			if l.holder.token >= token {
				yield(l.holder)
			}
			return
		}
		m.shared.Ascend(&claim{name: l.name, token: token}, func(c *claim) bool {
			return c.name == l.name && yield(c)
		})
	}
}

// waitersOf are the waiters in the order in which they will be served.
func (m *Machine) waitersOf(l *lock) iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		m.waiters.Ascend(&claim{Terms: Terms{Priority: math.MaxInt32}, name: l.name}, func(c *claim) bool {
			return c.name == l.name && yield(c)
		})
	}
}

// firstHolder is the holder with the lowest token, nil if the lock is free.
func (m *Machine) firstHolder(l *lock) *claim {
	for c := range m.holdersOf(l) {
		return c
	}
	return nil
}
