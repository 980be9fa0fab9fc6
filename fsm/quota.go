package fsm

import (
	"bytes"
	"sort"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Quota bounds what one node, or what all locks whose names begin with a prefix, may take of the bounds of
// the group, so that one service that leaks does not fill these for all. 0 is no bound.
type Quota struct {
	Node   Node   // with no Prefix: its processes together. Zero: each node that has no quota of its own
	Prefix string // of the names of locks, not of Once keys

	Locks    uint32 // of a node, what it holds and waits for; of a prefix, names in use or with a value
	Waiters  uint32
	Sessions uint32 // of a node alone
	Value    uint32 // bytes of each value
	Bytes    uint32 // of all values together: of a node, that it wrote last or waits with. Each takes whole BlockBytes
}

// LevelOfQuotas is the feature level of SetQuota, QueryQuotas and Act: a replica of an older version knows none.
const LevelOfQuotas = 2

// SetQuota sets the quota of a node or of a prefix, or with no bound removes it, by order of an operator. It
// ends nothing: what is above the quota stays, and nothing more is taken until it fits. It is of LevelOfQuotas.
//
// Seen is how many commands its proposer had applied: CodeFinished where another SetQuota was carried out
// since. CodeOK also where the quota is that already. CodeTooManyQuotas: QuotasMax. CodeInvalid without a
// reason.
type SetQuota struct {
	Quota
	Seen   uint64
	Reason string
}

// about is of no process: the command is an operator's.
func (SetQuota) about() (op, Process) { return opSetQuota, Process{} }

func (c *SetQuota) fields(f *codec) {
	c.Quota.fields(f, 1, 9)
	f.uint(7, &c.Seen)
	f.text(8, &c.Reason)
}

func (q *Quota) fields(f *codec, number, bytes protowire.Number) {
	f.someNode(number, &q.Node)
	f.text(number+1, &q.Prefix)
	for i, bound := range [...]*uint32{&q.Locks, &q.Waiters, &q.Sessions, &q.Value} {
		narrow(f, number+2+protowire.Number(i), bound)
	}
	narrow(f, bytes, &q.Bytes)
}

// empty reports whether the quota bounds nothing.
func (q Quota) empty() bool { return q == Quota{Node: q.Node, Prefix: q.Prefix} }

func (q Quota) valid() bool {
	return validText(q.Prefix, NameBytesMax) && (q.Prefix == "" || q.Node == (Node{}) && q.Sessions == 0)
}

func lessQuota(a, b Quota) bool {
	if a.Prefix != b.Prefix {
		return a.Prefix < b.Prefix
	}
	return bytes.Compare(a.Node[:], b.Node[:]) < 0
}

func (c *SetQuota) apply(m *Machine) Outcome {
	if !c.Quota.valid() || c.Reason == "" || !validLabel(c.Reason) || c.Seen == 0 || c.Seen >= m.commands {
		return Outcome{Code: CodeInvalid}
	}
	now, known := m.quotas.Get(c.Quota)
	same := now == c.Quota || !known && c.Quota.empty()
	switch {
	case c.Seen < m.limited && !same:
		return Outcome{Code: CodeFinished}
	case c.Seen < m.limited:
		return Outcome{}
	}
	m.limited = m.commands // whatever the answer: a late duplicate changes nothing
	switch {
	case same:
		return Outcome{}
	case c.Quota.empty():
		m.quotas.Delete(c.Quota)
	case !known && m.quotas.Len() >= m.limits.quotas:
		return Outcome{Code: CodeTooManyQuotas}
	default:
		m.quotas.Set(c.Quota)
	}
	m.events = append(m.events, Event{
		Index: m.commands, Kind: EventQuota, Session: SessionID{Node: c.Node}, Name: c.Prefix, Detail: c.Reason,
	})
	return Outcome{}
}

// Over is a bound of a quota that a request would break.
type Over struct {
	Node   Node // the node that would break the quota of a node, its own or that of each
	Prefix string
	What   QuotaBound
	Limit  uint32
}

// QuotaBound is one of the bounds of a quota.
type QuotaBound uint8

// The bounds of a quota.
const (
	QuotaLocks QuotaBound = iota + 1
	QuotaWaiters
	QuotaSessions
	QuotaValue
	QuotaBytes
)

// String is the bound in lower case.
func (b QuotaBound) String() string {
	return named("bound", uint8(b), "none", "locks", "waiters", "sessions", "bytes of a value", "bytes of all values")
}

func (o *Over) fields(f *codec) {
	f.someNode(1, &o.Node)
	f.text(2, &o.Prefix)
	narrow(f, 3, &o.What)
	narrow(f, 4, &o.Limit)
}

// quotaOf is the quota that bounds a node: its own, or else that of each, or else one without bounds.
func (m *Machine) quotaOf(id Node) Quota {
	q, ok := m.quotas.Get(Quota{Node: id})
	if !ok {
		q, _ = m.quotas.Get(Quota{})
	}
	return q
}

// by is the bound if n would break it, nil if not.
func (o Over) by(n int, what QuotaBound, limit uint32) *Over {
	if limit == 0 || n <= int(limit) {
		return nil
	}
	o.What, o.Limit = what, limit
	return &o
}

// overQuota is the bound of a quota that the claims of a request would break, nil if none would. They are
// free to be granted at once, or wait. replaced is the value in the place of which theirs comes at once.
func (m *Machine) overQuota(c *Acquire, replaced *value, free bool) (over *Over) {
	if m.quotas.Len() == 0 {
		return nil
	}
	claims, node := 1+len(c.Others), Over{Node: c.Session.Node}
	q, u := m.quotaOf(node.Node), m.useOf(node.Node)
	if over = node.by(u.locks+u.waiters+claims, QuotaLocks, q.Locks); over == nil && !free {
		over = node.by(u.waiters+claims, QuotaWaiters, q.Waiters)
	}
	if over == nil {
		m.eachPrefix(func(q Quota) bool {
			over = m.overPrefix(q, c, free)
			return over == nil
		})
	}
	if over == nil {
		over = m.overValue(node.Node, c.Name, c.Value, replaced)
	}
	return over
}

// overPrefix is overQuota for the quota of a prefix.
func (m *Machine) overPrefix(q Quota, c *Acquire, free bool) (over *Over) {
	claims, fresh := 0, 0
	note := func(name string) {
		if strings.HasPrefix(name, q.Prefix) {
			claims++
			if _, there := m.locks.Get(name); !there {
				fresh++
			}
		}
	}
	note(c.Name)
	for _, name := range c.Others {
		note(name)
	}
	prefix := Over{Prefix: q.Prefix}
	if fresh > 0 && q.Locks > 0 {
		over = prefix.by(m.locksUnder(q.Prefix)+fresh, QuotaLocks, q.Locks)
	}
	if over == nil && claims > 0 && !free && q.Waiters > 0 {
		over = prefix.by(m.waitersUnder(q.Prefix)+claims, QuotaWaiters, q.Waiters)
	}
	return over
}

// overValue is the bound that a value would break in the place of another: that of the node that writes it, or
// of a prefix of its lock.
func (m *Machine) overValue(id Node, name string, bytes []byte, replaced *value) (over *Over) {
	if len(bytes) == 0 || m.quotas.Len() == 0 {
		return nil
	}
	now, was := blocksOf(int64(len(bytes))), blocksOf(replaced.size())
	test := func(o Over, q Quota, taken, freed int) bool {
		over = o.by(len(bytes), QuotaValue, q.Value)
		if over == nil && now > freed {
			over = o.by((taken+now-freed)*BlockBytes, QuotaBytes, q.Bytes)
		}
		return over == nil
	}
	freed := 0 // of the node's own
	if replaced != nil && replaced.by == id {
		freed = was
	}
	if test(Over{Node: id}, m.quotaOf(id), m.useOf(id).blocks, freed) {
		m.eachPrefix(func(q Quota) bool {
			return !strings.HasPrefix(name, q.Prefix) || test(Over{Prefix: q.Prefix}, q, m.blocksUnder(q.Prefix), was)
		})
	}
	return over
}

// overSessions is the bound that one more session of a node would break.
func (m *Machine) overSessions(id Node) *Over {
	return Over{Node: id}.by(m.useOf(id).sessions+1, QuotaSessions, m.quotaOf(id).Sessions)
}

// eachPrefix calls f with the quota of each prefix until it returns false.
func (m *Machine) eachPrefix(f func(Quota) bool) {
	m.quotas.Scan(func(q Quota) bool { return q.Prefix == "" || f(q) })
}

// locksUnder is how many locks there are whose names begin with a prefix, waitersUnder how many wait for these,
// and blocksUnder how many blocks their values take. All look for the first and the last, and do not count.
func (m *Machine) locksUnder(prefix string) int {
	return under(prefix, m.locks.Len(), func(i int) string { name, _, _ := m.locks.GetAt(i); return name })
}

func (m *Machine) waitersUnder(prefix string) int {
	return under(prefix, m.waiters.Len(), func(i int) string { c, _ := m.waiters.GetAt(i); return c.name })
}

func (m *Machine) blocksUnder(prefix string) int {
	return under(prefix, m.blocks.Len(), func(i int) string { b, _ := m.blocks.GetAt(i); return b.name })
}

// under is how many of n names in order, some of them equal, begin with a prefix.
func under(prefix string, n int, name func(int) string) int {
	first := sort.Search(n, func(i int) bool { return name(i) >= prefix })
	return sort.Search(n-first, func(i int) bool { return !strings.HasPrefix(name(first+i), prefix) })
}

// use is what the processes of a node take of the bounds of the group. It follows from the claims, sessions
// and values, and is in no snapshot.
type use struct {
	locks, waiters, sessions int
	blocks                   int // of the values that the node wrote last, or waits with
	epoch                    uint64
}

// useRef finds a use without making one.
type useRef struct {
	node Node
	*use
}

func lessUse(a, b useRef) bool { return bytes.Compare(a.node[:], b.node[:]) < 0 }

// useOf is what a node takes, to be read.
func (m *Machine) useOf(id Node) use {
	if ref, ok := m.uses.Get(useRef{node: id}); ok {
		return *ref.use
	}
	return use{}
}

// takes adds to what a node takes.
func (m *Machine) takes(id Node, more use) {
	u := m.recentUse
	if u.use == nil || u.epoch != m.epoch || u.node != id {
		u = m.ownUse(id)
	}
	u.plus(more)
	if *u.use == (use{epoch: u.epoch}) {
		m.uses.Delete(u)
		m.recentUse = useRef{}
	}
}

func (u *use) plus(more use) {
	u.locks, u.waiters, u.sessions, u.blocks = u.locks+more.locks, u.waiters+more.waiters, u.sessions+more.sessions, u.blocks+more.blocks
}

// ownUse finds or makes what a node takes, as this machine's own.
func (m *Machine) ownUse(id Node) useRef {
	ref, ok := m.uses.Get(useRef{node: id})
	if !ok || ref.epoch != m.epoch {
		mine := use{}
		if ok {
			mine = *ref.use
		}
		mine.epoch = m.epoch
		ref = useRef{id, &mine}
		m.uses.Set(ref)
	}
	m.recentUse = ref
	return ref
}

// checkQuotas tests that the quotas are in bounds, and that what each node takes is what it takes (I7).
func (m *Machine) checkQuotas() (err error) {
	m.quotas.Scan(func(q Quota) bool {
		if !q.valid() || q.empty() {
			err = broken(7, "a quota is out of bounds: %+v", q)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	counted, blocks := m.countUses()
	m.uses.Scan(func(u useRef) bool {
		c := counted[u.node]
		if c.epoch = u.epoch; c != *u.use {
			err = broken(7, "node %v takes %+v, counted %+v", u.node, c, *u.use)
		}
		return err == nil
	})
	switch {
	case err == nil && m.uses.Len() != len(counted):
		return broken(7, "%d nodes take something, counted %d", len(counted), m.uses.Len())
	case err == nil && m.blocks.Len() != blocks:
		return broken(7, "%d blocks of values, counted %d", blocks, m.blocks.Len())
	}
	return err
}

// countUses counts what each node takes, and the blocks of all values.
func (m *Machine) countUses() (counted map[Node]use, blocks int) {
	counted = make(map[Node]use)
	add := func(id Node, more use) {
		u := counted[id]
		u.plus(more)
		counted[id] = u
	}
	wrote := func(v *value) {
		blocks += blocksOf(v.size())
		if v != nil && v.by != (Node{}) && len(v.text) > 0 {
			add(v.by, use{blocks: blocksOf(v.size())})
		}
	}
	m.sessions.Scan(func(r sessionRef) bool { add(r.id.Node, use{sessions: 1}); return true })
	m.locks.Scan(func(_ string, l *lock) bool { wrote(l.value); return true })
	m.requests.Scan(func(r request) bool {
		n := len(r.claim.all())
		if wrote(r.claim.first()); r.claim.token == 0 {
			add(r.claim.owner.id.Node, use{waiters: n})
		} else {
			add(r.claim.owner.id.Node, use{locks: n})
		}
		return true
	})
	return counted, blocks
}

// QueryQuotas asks for all quotas and what is taken of them.
type QueryQuotas struct{}

// QuotasState answers a QueryQuotas.
type QuotasState struct {
	At     uint64
	Quotas []QuotaState // by prefix, and those of nodes first
}

// QuotaState is a quota and what is taken of it; of that of each node, nothing.
type QuotaState struct {
	Quota
	Use QuotaUse
}

// QuotaUse is what is taken of a quota.
type QuotaUse struct{ Locks, Waiters, Sessions, Bytes int }

// State implements Answer.
func (a QuotasState) State() uint64 { return a.At }

// Read implements Asks.
func (QueryQuotas) Read(a Answer) (QuotasState, bool) { return its[QuotasState](a) }

func (QueryQuotas) answer(m *Machine) Answer {
	a := QuotasState{At: m.commands}
	m.quotas.Scan(func(q Quota) bool {
		s := QuotaState{Quota: q}
		switch u := m.useOf(q.Node); {
		case q.Prefix != "":
			s.Use = QuotaUse{Locks: m.locksUnder(q.Prefix), Waiters: m.waitersUnder(q.Prefix), Bytes: m.blocksUnder(q.Prefix) * BlockBytes}
		case q.Node != Node{}:
			s.Use = QuotaUse{u.locks + u.waiters, u.waiters, u.sessions, u.blocks * BlockBytes}
		}
		a.Quotas = append(a.Quotas, s)
		return true
	})
	return a
}
