package fsm

import "fmt"

// Check tests every invariant of the state, in time proportional to its size. The error wraps
// ErrInvariant and names the invariant that is broken, see Machine.
func (m *Machine) Check() error {
	if err := m.sound(); err != nil {
		return err
	}
	return m.checkBounds()
}

// sound is Check without the bounds. What Apply has made must be read again, or no replica of its group
// could start: waiters that are served again and again make more holders than requests are granted at
// once.
func (m *Machine) sound() error {
	for _, check := range []func() error{
		m.checkGroup, m.checkNodes, m.checkSessions, m.checkLocks, m.checkResizes, m.checkQuotas, m.checkRequests, m.checkTeardowns, m.checkKeys, m.checkPast,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func broken(number int, format string, args ...any) error {
	return fmt.Errorf("%w: I%d: %s", ErrInvariant, number, fmt.Sprintf(format, args...))
}

func (m *Machine) checkGroup() error {
	switch {
	case m.counter > m.limits.token:
		return broken(2, "counter %d is above the limit", m.counter)
	case !m.born && (m.serving || m.counter != 0 || m.bootstrap != 0 || m.cluster != [16]byte{}), m.born && m.cluster == [16]byte{}:
		return broken(7, "cluster %x born %v serving %v", m.cluster, m.born, m.serving)
	case m.commands > commandsMax:
		return broken(7, "%d commands", m.commands)
	case m.unsettled.Len() > m.locks.Len():
		return broken(4, "%d locks are unsettled of %d", m.unsettled.Len(), m.locks.Len())
	case m.stepped > m.commands:
		return broken(7, "a step was taken at %d", m.stepped)
	case m.evicted > m.commands:
		return broken(7, "an order is of %d", m.evicted)
	case m.resized > m.commands:
		return broken(7, "a semaphore was resized at %d", m.resized)
	case m.limited > m.commands:
		return broken(7, "a quota was set at %d", m.limited)
	case m.silentSeen > m.commands:
		return broken(7, "silence was seen at %d", m.silentSeen)
	case m.maxTTL > TTLMax, m.holdoff > TTLMax, m.holdoff > 0 && m.serving:
		return broken(7, "sessions may have a TTL of %v, the group waits for %v", m.maxTTL, m.holdoff)
	case m.voters > m.bootstrap:
		return broken(7, "%d voters of %d replicas to start with", m.voters, m.bootstrap)
	}
	return nil
}

func (m *Machine) checkNodes() (err error) {
	here, memories := 0, 0
	owners := make(map[uint64]node)
	var before node
	m.nodes.Scan(func(n node) bool {
		if err = m.checkNode(n); err != nil {
			return false
		}
		if before.id == n.id && !(before.over && before.lasting) {
			err = broken(3, "node %v has a later process than %#x, which is not over or only a memory", n.id, before.incarnation)
		}
		before = n
		switch {
		case n.gone == 0:
			here++
		case n.memory():
			memories++
		}
		if _, twice := owners[n.born]; twice {
			err = broken(3, "two processes said hello at %d", n.born)
		}
		if !n.over {
			owners[n.born] = n
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if here != m.here || memories != m.forgotten {
		return broken(7, "%d processes and %d memories, counted %d and %d", here, memories, m.here, m.forgotten)
	}
	counts := m.numbers.count()
	for born, n := range owners {
		if counts[born] != n.spans {
			return broken(7, "node %v remembers %d spans, counted %d", n.id, counts[born], n.spans)
		}
	}
	return m.numbers.check(func(owner uint64) (floor uint64, ok bool) {
		n, ok := owners[owner]
		return n.lowest, ok
	})
}

func (m *Machine) checkNode(n node) error {
	open := m.hasSessions(n)
	switch {
	case n.id == Node{} || n.incarnation == 0 || !validText(n.name, NameBytesMax) || len(n.place.Boot) > BootBytesMax:
		return broken(3, "node %v has a bad record", n.id)
	case n.over && (n.born != 0 || n.since != 0 || n.lowest != 0 || n.gone == 0), n.gone > m.commands, n.departure != Stays && !n.over, n.departure > Gone, n.back && n.departure == Stays:
		return broken(3, "process %#x of node %v is over and has a record", n.incarnation, n.id)
	case !n.over && (n.born == 0 || n.since < n.born || n.since > m.commands):
		return broken(3, "process %#x of node %v said hello at %d", n.incarnation, n.id, n.born)
	case n.lasting != (n.gone != 0 && open):
		return broken(10, "process %#x of node %v: sessions open: %v", n.incarnation, n.id, open)
	}
	return nil
}

// count is how many runs each owner has.
func (t spans) count() map[uint64]int {
	counts := make(map[uint64]int)
	t.tree.Scan(func(s span) bool { counts[s.owner]++; return true })
	return counts
}

// check tests that the runs are in order and apart, that none is below the floor of its owner, and
// that every owner exists (I5).
func (t spans) check(floor func(owner uint64) (uint64, bool)) (err error) {
	var last span
	t.tree.Scan(func(s span) bool {
		low, ok := floor(s.owner)
		switch {
		case !ok:
			err = broken(5, "numbers of nobody: %d", s.owner)
		case s.low == 0 || s.low > s.high || s.low < low:
			err = broken(5, "numbers %d to %d of %d, floor %d", s.low, s.high, s.owner, low)
		case last.owner == s.owner && s.low-1 <= last.high:
			err = broken(5, "numbers %d to %d of %d overlap or touch", s.low, s.high, s.owner)
		}
		last = s
		return err == nil
	})
	return err
}

func (m *Machine) checkSessions() (err error) {
	owners := make(map[uint64]*session)
	m.sessions.Scan(func(r sessionRef) bool {
		s := r.s
		n, known := m.process(r.id.Node, r.id.Incarnation)
		_, twice := owners[s.opened]
		switch {
		case s.id != r.id || !s.id.valid() || s.nodeName != n.name:
			err = broken(3, "session %v has a bad record", r.id)
		case !known:
			err = broken(3, "session %v of a process that is not on record", s.id)
		case !n.over && !m.used(n, s.id.Number):
			err = broken(5, "session %v has a number that was never used", s.id)
		case s.opened == 0 || s.renewed < s.opened || s.renewed > m.commands || twice:
			err = broken(3, "session %v opened at %d, renewed at %d", s.id, s.opened, s.renewed)
		case s.ttl < TTLMin || s.ttl > TTLMax:
			err = broken(7, "session %v has TTL %v", s.id, s.ttl)
		}
		owners[s.opened] = s
		return err == nil
	})
	if err != nil {
		return err
	}
	counts := m.finished.count()
	for opened, s := range owners {
		if counts[opened] != s.spans {
			return broken(7, "session %v remembers %d spans, counted %d", s.id, counts[opened], s.spans)
		}
	}
	return m.finished.check(func(owner uint64) (uint64, bool) {
		s := owners[owner]
		switch {
		case s == nil:
			return 0, false
		case s.heard && m.finished.startsBelow(owner, s.acked):
			return 1, true
		}
		return s.acked, true
	})
}

// checkRequests tests that each live request is of an open session (I3) and is not finished (I5).
// checkFiled and the number of requests imply that the requests are the claims of the locks.
func (m *Machine) checkRequests() (err error) {
	var s *session
	var n node
	extra, nested := 0, 0
	m.requests.Scan(func(r request) bool {
		c := r.claim
		if s == nil || s.owner != c.owner {
			ref, there := m.sessions.Get(sessionRef{id: c.owner.id})
			if !there || ref.s.owner != c.owner {
				err = broken(3, "%q is claimed by session %v, which is not there", c.name, c.owner.id)
				return false
			}
			s = ref.s
			n, _ = m.process(s.id.Node, s.id.Incarnation)
		}
		if n.over && c.token == 0 && !m.gone(c) {
			err = broken(10, "request %d of %v waits, but its process is over", c.request, c.owner.id)
		}
		if m.finished.contains(r.opened, r.number) {
			err = broken(5, "request %d of %v is live and finished", c.request, c.owner.id)
		}
		if c.more != nil && c.more.while != nil {
			nested++
			if other, ok := m.nested.Get(c); !ok || other != c || len(c.more.while) > WhileMax {
				err = broken(3, "request %d of %v is not filed by what it holds", c.request, c.owner.id)
			}
		}
		if !c.alone() {
			extra += len(c.more.set.claims) - 1
		}
		return err == nil
	})
	if err == nil && m.requests.Len()+extra != m.grants+m.waiters.Len() {
		err = broken(7, "%d requests, %d grants, %d waiters", m.requests.Len(), m.grants, m.waiters.Len())
	}
	if err == nil && m.nested.Len() != nested {
		return broken(7, "%d nested claims, %d filed", nested, m.nested.Len())
	}
	return err
}

// checkFiled tests that a claim of a lock is the one that its session knows.
func (m *Machine) checkFiled(l *lock, c *claim) error {
	r, ok := m.requests.Get(request{opened: c.owner.opened, number: c.request})
	switch {
	case !c.alone():
		if err := m.checkSet(c); err != nil {
			return err
		}
		if !ok || r.claim != c.more.set.claims[0] || c.request == 0 {
			return broken(3, "request %d of %v is not known to its session", c.request, c.owner.id)
		}
	case !ok || r.claim != c || c.request == 0:
		return broken(3, "request %d of %v is not known to its session", c.request, c.owner.id)
	}
	switch {
	case c.name != l.name || !c.valid():
		return broken(1, "request %d of %v for %q is out of bounds", c.request, c.owner.id, l.name)
	case c.Limit != l.limit && !m.wasResized(l):
		return broken(1, "%q is in use with limit %d, request %d of %v has %d", l.name, l.limit, c.request, c.owner.id, c.Limit)
	case c.index == 0 || c.index > m.commands:
		return broken(2, "request %d of %v was granted or queued at %d", c.request, c.owner.id, c.index)
	}
	return nil
}

func (m *Machine) checkBounds() error {
	for _, bound := range []struct {
		what     string
		now, max int
	}{
		{"locks", m.locks.Len(), m.limits.locks},
		{"grants", m.grants, m.limits.grants + m.limits.waiters}, // waiters become holders: see sound
		{"waiters", m.waiters.Len(), m.limits.waiters},
		{"rests", m.rests.Len(), m.limits.grants + m.limits.waiters},
		{"Once keys", m.keys.Len(), m.limits.keys + m.limits.grants + m.limits.waiters}, // those that ran finish
		{"resized semaphores", m.resizes.Len(), m.limits.resizes},
		{"quotas", m.quotas.Len(), m.limits.quotas},
		{"sessions", m.sessions.Len(), m.limits.sessions},
		{"nodes", m.here, m.limits.nodes}, // those that are over and have sessions are not more than those
		{"forgotten nodes", m.forgotten, m.limits.forgotten},
		{"finished requests", m.finished.tree.Len(), m.limits.spansTotal + m.limits.grants + 2*m.limits.waiters},
	} {
		if bound.now < 0 || bound.now > bound.max {
			return broken(7, "%d %s, at most %d", bound.now, bound.what, bound.max)
		}
	}
	if m.values < 0 || m.values > m.limits.values {
		return broken(7, "%d bytes of values, at most %d", m.values, m.limits.values)
	}
	return nil
}
