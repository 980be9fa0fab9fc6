package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// node is one machine and the process on it.
type node struct {
	w  *world
	i  int
	id fsm.Node

	// The machine: goes on whatever the process does.
	clock       clock
	raft        raft
	bound       bool // it has its group
	asks        bool // it is in a later life as a replica, which has not caught up
	retired     bool // it is gone for good
	incarnation uint64
	up          bool
	downs       int // faults that keep it down
	lag         time.Duration
	stood       standstill
	hangs       int    // faults of its disk
	host        int    // the machine, of those on which its disk was
	boot        int    // of the machine; every second start is after one
	copies      uint64 // of its disk, each made of the one before
	ousted      bool   // its disk was opened elsewhere: it takes no part in Raft any more
	silent      bool   // if it is ousted: what it sends is lost
	ills        int    // faults that touch it
	well        bool
	wellSince   time.Duration

	// The process: begins anew with every start.
	life    uint64        // counts processes
	began   time.Duration // in true time
	paused  bool
	pauses  int           // faults that pause it
	held    []func()      // what happens when it goes on
	parked  []func()      // what its engine does when its disk goes on
	peers   []peer        // by node
	behind  lease.Instant // when it found out last that its clock had lost time; 0: it has not
	shown   time.Duration // what its clock had lost by then, or as it began
	machine *fsm.Machine
	applied uint64
	wrote   time.Duration // when it applied the last entry
	members *config       // as applied
	known   uint64        // the last command that its process was told of
	leaving bool          // it goes on as a replica alone
	since   time.Duration // it leaves
	sights  []sight
	pilot   pilot
	lagging bool
	joined  bool // the group has heard its Hello
	arrived []func()
	pending map[uint64]*attempt
	queue   batch.Queue[*insistence]
	changed []pause // that a change of the raft leader ends

	timing  time.Duration // since when it has timed all that there is
	times   *expiry.Table
	ends    timer
	keeper  keeper
	tenures []*tenure
	calls   []*call
	leads   []*candidacy
}

func newNode(w *world, i int) *node {
	n := &node{w: w, i: i, id: fsm.Node{0: byte(i + 1), 6: 0x80, 8: 0x80}} // bound to a key, as all ids of nodes are
	n.clock = clock{shows: lease.Instant(time.Second) * lease.Instant(1+i), rate: w.plan.Rates[i]}
	n.raft = raft{node: n, vote: -1, self: 1, conf: w.founders, snap: image{conf: w.founders}}
	n.machine, n.members, n.bound = fsm.New(), w.founders, w.founders.has(i)
	return n
}

func (n *node) start() {
	n.incarnation++
	n.boot += int(n.incarnation+1) % 2
	n.w.places[n.process()] = n.place()
	n.w.record(history.Event{Kind: history.Opened, Node: n.i, Value: n.name()})
	n.up, n.leaving = true, false
	n.peers, n.behind, n.shown = make([]peer, n.w.plan.Nodes), 0, n.lost()
	n.begin()
	if n.asks {
		n.catchUp()
	} else {
		n.found()
	}
}

// begin lets the process have nothing but its replica.
func (n *node) begin() {
	n.life++
	n.began = n.w.now
	n.paused, n.joined, n.lagging = n.pauses > 0, false, false
	n.sights = nil
	n.pending = make(map[uint64]*attempt)
	n.queue = batch.Queue[*insistence]{Most: n.w.plan.Underway}
	n.held, n.parked, n.arrived, n.changed, n.tenures, n.calls, n.leads = nil, nil, nil, nil, nil, nil, nil
	n.times = expiry.New(n.w.plan.Election, func(fsm.SessionID, time.Duration) {})
	n.ends = timer{}
	n.keeper.begin(n)
	n.pilot.begin(n)
	if n.w.trace != nil {
		n.w.tell("node %d starts, incarnation %d", n.i, n.incarnation)
	}
	n.raft.restore(false)
	n.known = n.machine.Commands()
	n.raft.boot()
	n.wakeEnds()
}

func (n *node) process() fsm.Process { return fsm.Process{Node: n.id, Incarnation: n.incarnation} }

// found gives the group its birth, if nobody has, and then says Hello.
func (n *node) found() {
	n.insist(nil, fsm.Birth{Cluster: [16]byte{1}, Counter: n.w.plan.Seed % (1 << 40)}, func(fsm.Outcome, bool, bool) {
		n.insist(nil, fsm.Serve{}, func(fsm.Outcome, bool, bool) {})
		n.hello()
	})
}

// hello makes the process known to the group, and lets the calls go on that wait for that.
func (n *node) hello() {
	n.insist(nil, fsm.Hello{Node: n.id, Incarnation: n.incarnation, Name: "n", Place: n.place()}, func(fsm.Outcome, bool, bool) {
		arrived := n.arrived
		n.joined, n.arrived = true, nil
		for _, f := range arrived {
			f()
		}
		n.w.health()
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
	n.held, n.parked, n.arrived, n.changed, n.tenures, n.calls, n.leads = nil, nil, nil, nil, nil, nil, nil
	n.pending = nil
}

func (n *node) pause() { n.paused = true }

func (n *node) resume() {
	n.paused = false
	n.w.calm = n.w.now
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

// park keeps what the engine of a node does until its disk goes on: one goroutine of it takes what comes,
// writes and sends.
func (n *node) park(f func()) { n.parked = append(n.parked, f) }

// unpark lets the engine do what it has kept.
func (n *node) unpark() {
	parked := n.parked
	n.parked = nil
	for _, f := range parked {
		switch {
		case !n.up:
		case n.paused:
			n.held = append(n.held, f)
		default:
			f()
		}
	}
}

func (n *node) now() lease.Instant { return n.clock.at(n.w.now) }

// timer is one that is set again and again, by the node's own clock.
type timer struct {
	at      lease.Instant
	planned time.Duration // true time of the event under way; 0: none
	run     func()
}

// set lets run happen when the clock shows at, or before and then at again. An event that was
// planned for earlier looks and sets the timer anew.
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

func (n *node) reset(t *timer) {
	if t.run != nil && n.up {
		t.planned = 0
		n.set(t, t.at, t.run)
	}
}

func (n *node) leaderChanged() {
	if n.raft.leader >= 0 {
		n.unsettle()
	}
	n.pilot.wake()
	waiting := n.changed
	n.changed = nil
	for _, p := range waiting {
		p.end()
	}
	n.wakeEnds()
}
