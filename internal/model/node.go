package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// node is one machine and the process on it.
type node struct {
	w  *world
	i  int
	id fsm.Node

	// The machine: goes on whatever the process does.
	clock       clock
	raft        raft
	incarnation uint64
	up          bool
	downs       int // faults that keep it down
	lag         time.Duration
	ills        int // faults that touch it
	well        bool
	wellSince   time.Duration

	// The process: begins anew with every start.
	life    uint64 // counts processes
	paused  bool
	pauses  int      // faults that pause it
	held    []func() // what happens when it goes on
	machine *fsm.Machine
	applied uint64
	lagging bool
	joined  bool // the group has heard its Hello
	arrived []func()
	pending map[uint64]*attempt
	line    batch.Line[*insistence]
	changed []pause // that a change of the raft leader ends

	timing  time.Duration // since when it has timed all that there is
	table   *lease.Expiries
	expiry  timer
	elapses *lease.Elapses
	elapse  timer
	keeper  keeper
	tenures []*tenure
	calls   []*call
	leads   []*candidacy
	folds   []*fold
}

func newNode(w *world, i int) *node {
	n := &node{w: w, i: i, id: fsm.Node{byte(i + 1)}}
	n.clock = clock{shows: lease.Instant(time.Second) * lease.Instant(1+i), rate: w.plan.Rates[i]}
	n.raft = raft{node: n, vote: -1}
	return n
}

// start begins a process.
func (n *node) start() {
	n.life++
	n.incarnation++
	n.up, n.paused, n.joined, n.lagging = true, n.pauses > 0, false, false
	n.pending = make(map[uint64]*attempt)
	n.line = batch.Line[*insistence]{Most: n.w.plan.Underway}
	n.held, n.arrived, n.changed, n.tenures, n.calls, n.leads = nil, nil, nil, nil, nil, nil
	n.table = lease.NewExpiries(n.w.plan.Election, expireRetry)
	n.elapses = lease.NewElapses(n.w.plan.Election, expireRetry)
	n.expiry, n.elapse = timer{}, timer{}
	n.keeper.begin(n)
	if n.w.trace != nil {
		n.w.tell("node %d starts, incarnation %d", n.i, n.incarnation)
	}
	n.raft.restore(false)
	n.raft.boot()
	n.wakeExpiry()
	n.fold()
	n.found()
}

// found gives the group its birth, if nobody has, and then says Hello.
// place is where the node's process runs.
func (n *node) place() fsm.Place { return n.placeOf(n.incarnation) }

// placeOf is where an incarnation of the node runs, or ran: every second start is after a boot of its machine.
func (n *node) placeOf(incarnation uint64) fsm.Place {
	return fsm.Place{Boot: "boot", Device: incarnation / 2, File: uint64(n.i)}
}

func (n *node) found() {
	n.insist(nil, fsm.Birth{Cluster: [16]byte{1}, Counter: n.w.plan.Seed % (1 << 40)}, func(fsm.Outcome, bool, bool) {
		n.insist(nil, fsm.Serve{}, func(fsm.Outcome, bool, bool) {})
		n.insist(nil, fsm.Hello{Node: n.id, Incarnation: n.incarnation, Name: "n", Place: n.place()}, func(fsm.Outcome, bool, bool) {
			n.joined = true
			for _, f := range n.arrived {
				f()
			}
			n.arrived = nil
		})
	})
}

// crash ends the process: what it had in memory is gone, what waits for it learns nothing.
func (n *node) crash() {
	if !n.up {
		return
	}
	if n.w.trace != nil {
		n.w.tell("node %d crashes", n.i)
	}
	n.up = false
	n.life++
	for _, t := range slices.Clone(n.tenures) {
		t.gone()
	}
	for _, c := range slices.Clone(n.calls) {
		c.gone()
	}
	for _, l := range slices.Clone(n.leads) {
		l.gone()
	}
	n.held, n.arrived, n.changed, n.tenures, n.calls, n.leads, n.folds = nil, nil, nil, nil, nil, nil, nil
	n.pending = nil
}

// pause stops the process; its clock goes on.
func (n *node) pause() { n.paused = true }

// resume lets everything happen that came up meanwhile.
func (n *node) resume() {
	n.paused = false
	held := n.held
	n.held = nil
	for i, f := range held {
		if n.paused || !n.up {
			n.held = append(n.held, held[i:]...)
			return
		}
		f()
	}
}

func (n *node) now() lease.Instant { return n.clock.at(n.w.now) }

// timer is one that is set again and again, by the node's own clock.
type timer struct {
	at      lease.Instant
	planned time.Duration // true time of the event under way; 0: none
	run     func()
}

// set lets run happen when the clock shows at, or before and then at again. An event that was planned for
// earlier looks and sets the timer anew.
func (n *node) set(t *timer, at lease.Instant, run func()) {
	t.at, t.run = at, run
	due := n.w.now + n.clock.until(n.w.now, at)
	if at == lease.Never || t.planned != 0 && t.planned <= due {
		return
	}
	t.planned = due
	n.w.after(n, due-n.w.now, func() {
		if t.planned != due {
			return
		}
		t.planned = 0
		if n.now() < t.at {
			n.set(t, t.at, t.run)
			return
		}
		t.run()
	})
}

// reset plans the timer again after the clock has changed.
func (n *node) reset(t *timer) {
	if t.run != nil && n.up {
		t.planned = 0
		n.set(t, t.at, t.run)
	}
}

// The product's (expirer.go).
const (
	expireRetry = 200 * time.Millisecond
	expirePause = time.Second
)

// noteExpiry is expirer.note.
func (n *node) noteExpiry(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventSessionRenewed:
		n.table.Renewed(e.Session, e.Index, e.TTL, n.now())
	case fsm.EventSessionEnded:
		n.table.Ended(e.Session, n.now())
	}
}

// restoreExpiries is expirer.restore.
func (n *node) restoreExpiries() {
	n.table.Reset()
	for s := range n.machine.Sessions() {
		n.table.Renewed(s.ID, s.Renewed, s.TTL, n.now())
	}
}

// stepExpiry is expirer.step: what it lets be proposed is decided in internal/lease.
func (n *node) stepExpiry() {
	due, next := n.table.Step(n.now(), n.raft.role == leading)
	for _, d := range due {
		if n.w.trace != nil {
			n.w.tell("node %d proposes the end of session %s, renewed at %d", n.i, brief(d.ID), d.Renewed)
		}
		n.attempt(fsm.Encode(fsm.Expire{Session: d.ID, Renewed: d.Renewed}), nil)
	}
	at := min(next, n.now().Add(expirePause))
	n.set(&n.expiry, max(at, n.now().Add(time.Millisecond)), n.stepExpiry)
}

// wakeExpiry lets a voter look at once at what has expired.
func (n *node) wakeExpiry() {
	if n.raft.voter(n.i) {
		n.expiry.planned = 0
		n.set(&n.expiry, n.now(), n.stepExpiry)
	}
}

// leaderChanged is observer.LeaderChanged.
func (n *node) leaderChanged() {
	if n.raft.leader >= 0 {
		n.unsettle()
	}
	waiting := n.changed
	n.changed = nil
	for _, p := range waiting {
		p.end()
	}
	n.wakeExpiry()
	if n.elapse.run != nil {
		n.wakeElapse()
	}
}
