package fsm

import (
	"bytes"
	"errors"
	"time"

	"github.com/tidwall/btree"
)

// Machine is the state of a group, and the only thing that changes it is Apply. Not safe for
// concurrent use: its owner locks. Reads may run at the same time as each other.
//
// Invariants, which Check tests and other comments cite:
//
//	I1 the holders and rests of a lock have its mode, one if it is exclusive, and their weights fit the limit at the grant of the last
//	I2 tokens are unique, and none is above the counter; the counter never falls
//	I3 every claim (a holder or waiter) belongs to a session that exists, every session to a process on record
//	I4 the first waiter of a lock does not fit, with its whole set, or is gone, or the lock is unsettled: no claim waits for a free lock
//	I5 a request is live or finished, never both; an ended session's number never opens again
//	I6 a lock has a holder, a waiter, a rest or a value; else it is not there
//	I7 every count is the count of what it counts, and the bounds hold
//	I8 a Once key is a lock while it runs or fails, and a record when it is finished, both only while its waiters are withdrawn
//	I9 the claims of a set wait together or hold together, under one token
//	I10 a process that is over has no waiter that is not gone, and its sessions wait for their end alone
//	I11 a teardown takes away each ended session and withdrawn waiter that still exists, and no teardown is empty
//
// And of its steps: a grant ends before its TTL only by a command of its own process, by the Hello
// of a process that proves the death of that one, or by an operator (S9). Apply compares the
// process that proposed a command with the process that the command is about. The replica that
// proposes a Via has compared that process with the client.
type Machine struct {
	group
	locks    index[lock]
	shared   *btree.BTreeG[*claim] // holders of shared and permit locks, by name and token
	waiters  *btree.BTreeG[*claim] // by name, priority, arrival
	requests *btree.BTreeG[request]
	sessions *btree.BTreeG[sessionRef]
	nodes    *btree.BTreeG[node]
	rests    *btree.BTreeG[*rest]       // by name and token
	nested   *btree.BTreeG[*claim]      // claims whose callers hold other locks meanwhile, by their first token and by request
	asked    *btree.Map[uint64, string] // why holders are asked to let go, by token
	keys     *btree.BTreeG[*onceRecord] // finished Once keys, by name
	aged     *btree.BTreeG[*onceRecord] // the same by how long they are kept, then by age
	classes  *btree.Map[uint64, class]  // by how long

	teardowns *btree.BTreeG[teardown]    // the one that began first is carried out first
	unsettled *btree.Map[string, sift]   // locks whose first waiters are still to be served or withdrawn
	resizes   *btree.Map[string, resize] // semaphores whose limit was changed
	quotas    *btree.BTreeG[Quota]       // those of nodes before those of prefixes
	uses      *btree.BTreeG[useRef]      // what the nodes take that take anything
	blocks    *btree.BTreeG[block]       // of all values, those of waiters included

	past     past
	finished spans // request numbers that are over, by session (the number of its opening)
	numbers  spans // session numbers that were used, by node (its record's number)

	grants    int
	sets      int   // live claims that are of a set
	here      int   // processes that are not over
	forgotten int   // nodes of which only the memory is left
	values    int64 // bytes of values, those of waiters and the reasons of asked included
	limits    limits

	// A lock, session or use of this epoch was made since the last Fork: it is this machine's alone and
	// may be changed in place. Any other is copied first. Claims never change once they are in a
	// tree.
	epoch uint64

	// Room that Apply uses again and again; no part of the state.
	scratch   scratch
	recent    *session // the one found last, unless it has ended: commands of a node come in a row
	recentUse useRef   // the one changed last
	pivot     claim
	spares    []*lock // memory of locks that were dropped
	events    []Event
	claims    []*claim
	names     []string
	found     []*session
	outcomes  []Outcome // of the commands of a batch
	pending   []string  // locks in which somebody was granted as part of a set
	work      int       // of this entry so far: see effort.go
	traced    int       // steps of this entry's searches for cycles
	via       bool      // this command came through the replica of another node
	left      int       // work that this command may still do for waiters and holders
}

// group is what the group as a whole agreed on.
type group struct {
	cluster    [16]byte
	born       bool
	serving    bool
	level      uint64
	counter    uint64        // no token up to it is granted any more
	applied    uint64        // log index of the entry that was applied last
	commands   uint64        // that were applied so far: the number of the last one, by which the state knows it
	bootstrap  uint32        // replicas that it was to start with
	voters     uint32        // those of them that were to vote
	silentSeen uint64        // Silent.Seen of the last one
	stepped    uint64        // index of the last Continue that was carried out
	maxTTL     time.Duration // of RaiseTTL, 0 before the first
	holdoff    time.Duration // of a recovered group: before its Serve, from its opening on
	evicted    uint64        // number of the last Evict that was carried out
	resized    uint64        // number of the last Resize that was carried out or refused
	limited    uint64        // number of the last SetQuota that was carried out or refused
}

// request finds a live claim by the number of its session's opening and its own.
type request struct {
	opened, number uint64
	claim          *claim
}

type sessionRef struct {
	id SessionID
	s  *session
}

// New is the empty state, before the first command.
func New() *Machine {
	return &Machine{
		locks:    newIndex[lock](),
		shared:   newTree(lessByToken),
		waiters:  newTree(lessByTurn),
		requests: newTree(lessRequest),
		sessions: newTree(func(a, b sessionRef) bool { return lessSession(&a.id, &b.id) }),
		nodes:    newTree(lessNode),
		rests:    newTree(lessByRest),
		nested:   newTree(lessNested),
		asked:    btree.NewMap[uint64, string](0),
		keys:     newTree(lessByKey),
		aged:     newTree(lessByAge),
		classes:  btree.NewMap[uint64, class](0),

		teardowns: newTree(lessTeardown),
		unsettled: btree.NewMap[string, sift](0),
		resizes:   btree.NewMap[string, resize](0),
		quotas:    newTree(lessQuota),
		uses:      newTree(lessUse),
		blocks:    newTree(lessBlock),

		past:     newPast(),
		finished: newSpans(),
		numbers:  newSpans(),
		limits:   defaultLimits(),
	}
}

func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

func lessRequest(a, b request) bool {
	return a.opened < b.opened || a.opened == b.opened && a.number < b.number
}

func lessSession(a, b *SessionID) bool {
	if c := bytes.Compare(a.Node[:], b.Node[:]); c != 0 {
		return c < 0
	}
	return a.Incarnation < b.Incarnation || a.Incarnation == b.Incarnation && a.Number < b.Number
}

// Fork is a copy of the state in O(1). Both can go on independently: what is shared is copied when
// it is first changed. Fork itself needs the owner's lock; the copy may then be read elsewhere
// without it.
func (m *Machine) Fork() *Machine {
	m.epoch++ // above that of every entry so far: neither machine owns them
	f := &Machine{
		group:    m.group,
		locks:    m.locks.fork(),
		shared:   m.shared.Copy(),
		waiters:  m.waiters.Copy(),
		requests: m.requests.Copy(),
		sessions: m.sessions.Copy(),
		nodes:    m.nodes.Copy(),
		rests:    m.rests.Copy(),
		nested:   m.nested.Copy(),
		asked:    m.asked.Copy(),
		keys:     m.keys.Copy(),
		aged:     m.aged.Copy(),
		classes:  m.classes.Copy(),

		teardowns: m.teardowns.Copy(),
		unsettled: m.unsettled.Copy(),
		resizes:   m.resizes.Copy(),
		quotas:    m.quotas.Copy(),
		uses:      m.uses.Copy(),
		blocks:    m.blocks.Copy(),

		past:     m.past.fork(),
		finished: m.finished.fork(),
		numbers:  m.numbers.fork(),
		grants:   m.grants, sets: m.sets, here: m.here, forgotten: m.forgotten, values: m.values,
		epoch:  m.epoch,
		limits: m.limits,
	}
	return f
}

// Apply carries out the command at a log index, which process by has proposed, and returns its
// outcome and what it changed. It never panics. The events are good until the next Apply. Indexes
// must rise: a command at an index that was applied before is answered CodeInvalid and changes
// nothing, as is one that is malformed or out of bounds. A command about another process's sessions
// is answered CodeForbidden. CodeUnsupported leaves the machine as it was at the index before: the
// replica must stop. The machine counts the commands, those included that are answered CodeInvalid
// or CodeForbidden: by these numbers, and not by indexes of the log, it knows what happened when.
func (m *Machine) Apply(index uint64, by Process, cmd []byte) (Outcome, []Event) {
	if index <= m.applied {
		return Outcome{Code: CodeInvalid}, nil
	}
	clear(m.events)
	if m.events = m.events[:0]; cap(m.events) > eventsKept {
		m.events = nil
	}
	m.work, m.traced = 0, 0
	var o Outcome
	if isBatch(cmd) {
		o = m.batch(by, cmd)
	} else {
		o = m.one(by, cmd)
	}
	if o.Code != CodeUnsupported {
		m.applied = index
	}
	return o, m.events
}

// eventsKept is for how many events there is room when nothing happens: some for each command of a
// full batch.
const eventsKept = 4 * BatchMax

// one carries out a command that is no batch.
func (m *Machine) one(by Process, cmd []byte) Outcome {
	cmd, via := cutVia(cmd)
	c, err := m.scratch.decode(cmd)
	if errors.Is(err, ErrUnsupported) {
		return Outcome{Code: CodeUnsupported}
	}
	m.commands++
	if err != nil {
		return Outcome{Code: CodeInvalid}
	}
	_, of := c.about()
	if via && !(Via{c}).Allowed() || !via && of != by && of != (Process{}) {
		return Outcome{Code: CodeForbidden}
	}
	m.tidy()
	m.left, m.via = m.step(), via
	_, before := m.Unfinished()
	o := c.apply(m)
	if _, left := m.Unfinished(); left && !before {
		m.events = append(m.events, Event{Index: m.commands, Kind: EventUnfinished})
	}
	return o
}

// tidy empties the scratch room, and gives it back when an unusual command made it large.
func (m *Machine) tidy() {
	const keep = 1024
	clear(m.claims)
	clear(m.found)
	m.claims, m.names, m.found = m.claims[:0], m.names[:0], m.found[:0]
	if cap(m.claims) > keep || cap(m.names) > keep || cap(m.found) > keep {
		m.claims, m.names, m.found = nil, nil, nil
	}
}

// emit records an event about a claim and returns it for its other fields to be filled.
func (m *Machine) emit(kind EventKind, c *claim, reason Reason) *Event {
	m.events = append(m.events, Event{
		Index: m.commands, Kind: kind, Session: c.owner.id, Request: c.request, Name: c.name,
		Token: c.token, Reason: reason, NodeName: c.owner.nodeName, Terms: c.Terms,
	})
	return &m.events[len(m.events)-1]
}
