package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// A node is fit while nothing is done to it, its process runs and gets processor and disk, and the
// group has answered it since then. It is well while the group goes on answering it. The fit nodes
// are a majority when each of them, as far as it knows the voters, counts one, and no storm is
// about their raft leader: a cut makes them elect another, and that must be quick, but a slow one,
// or one whose large messages reach some voters alone, may stay in office and serve badly. A node
// without a replica is as ill as the others together: it may hang on any of them. The history says
// who was well and when those were a majority, because a node that is not served loses its sessions
// in time, by right. That fit nodes are not served for long is a violation of its own.

// The faults that leave a network neither whole nor cut.
const (
	Storm = "storm" // slow and lossy
	Large = "large" // what is large is lost
)

type point struct {
	at     time.Duration
	node   int
	add    int  // to the illnesses of the node
	others int  // to those of other nodes, which are its own while it has no replica
	storm  int  // to the storms about it
	client bool // it is ClientOnly
	status *Status
	from   time.Duration // the status was asked for
}

func points(lines []Line) []point {
	var all []point
	var run Run
	faults := make(map[int]*Fault)
	ended := make(map[int]bool)
	touch := func(at time.Duration, add int, touched ...int) {
		for _, n := range touched {
			all = append(all, point{at: at, node: n, add: add})
		}
	}
	shared := func(at time.Duration, add int, touched ...int) {
		if slices.ContainsFunc(touched, func(n int) bool { return !run.Client(n) }) {
			for n := range run.Nodes {
				all = append(all, point{at: at, node: n, others: add})
			}
		}
	}
	strike := func(at time.Duration, add int, f *Fault) {
		for _, n := range f.Nodes {
			p := point{at: at, node: n, add: add}
			if f.Name == Storm || f.Name == Large {
				p.storm = add
			}
			all = append(all, p)
		}
		shared(at, add, f.Nodes...)
	}
	for _, l := range lines {
		switch l.Kind {
		case KindRun:
			run = *l.Run
			for i := range run.Nodes {
				all = append(all, point{node: i, add: 1, client: run.Client(i)}) // it has not been started
			}
		case KindStart:
			touch(l.To, -1, l.Node)
		case KindExit:
			touch(l.From, 1, l.Node)
		case KindFault:
			faults[l.Fault.ID] = l.Fault
			strike(l.From, 1, l.Fault)
		case KindFaultEnd:
			if f := faults[l.Fault.ID]; f != nil && !ended[f.ID] {
				ended[f.ID] = true
				strike(l.To, -1, f)
			}
		case KindStatus:
			all = append(all, point{at: l.To, node: l.Node, status: l.Status, from: l.From})
		}
	}
	for node, spans := range stops(lines) {
		for _, s := range spans {
			touch(s.from, 1, node)
			touch(s.to, -1, node)
			shared(s.from, 1, node)
			shared(s.to, -1, node)
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.add+b.others, a.add+a.others)) // what begins, before what ends
	})
	return all
}

type patient struct {
	ill       int
	others    int // illnesses of other nodes
	storm     int
	client    bool          // it is ClientOnly
	since     time.Duration // the last illness ended
	fit, well bool
	waits     time.Duration // since when it is fit among a fit majority and not served; negative: it is not so
	last      *Status
}

// Unserved is a stretch of time in which a fit node among a fit majority was not served.
type Unserved struct {
	Node     int
	From, To time.Duration
}

type ward struct {
	all      map[int]*patient
	quorum   bool
	events   []history.Event
	unserved []Unserved
}

// health answers Well, Ill and Quorum as they follow from a record, and when fit nodes were not
// served.
func health(lines []Line) ([]history.Event, []Unserved) {
	w := &ward{all: make(map[int]*patient)}
	end := time.Duration(0)
	for _, p := range points(lines) {
		if w.all[p.node] == nil {
			w.all[p.node] = &patient{waits: -1}
		}
		w.step(p)
		end = p.at
	}
	for node, x := range w.all {
		w.wait(node, x, end, -1)
	}
	return w.events, w.unserved
}

func (w *ward) step(p point) {
	x := w.all[p.node]
	x.ill, x.others, x.storm = x.ill+p.add, x.others+p.others, x.storm+p.storm
	x.client = x.client || p.client
	x.last = cmp.Or(p.status, x.last)
	far, ill := x.client || x.last != nil && x.last.Far, x.ill
	if far {
		ill += x.others
	}
	at := p.at
	switch {
	case p.status != nil:
		x.fit = x.fit || ill == 0 && p.from >= x.since && p.status.Served
		if !p.status.Served {
			at = p.from // it was not served from when it asked
		}
	case p.add < 0, far && p.others < 0:
		x.since = p.at
	}
	x.fit = x.fit && ill == 0
	if well := x.fit && x.last.Served; well != x.well {
		x.well = well
		kind := history.Ill
		if well {
			kind = history.Well
		}
		w.events = append(w.events, history.Event{At: at, Kind: kind, Node: p.node})
	}
	if q := w.majority(func(x *patient) bool { return x.well }); q != w.quorum {
		w.quorum = q
		w.events = append(w.events, history.Event{At: at, Kind: history.Quorum, OK: q})
	}
	fit := w.majority(func(x *patient) bool { return x.fit })
	for node, x := range w.all {
		if !fit || !x.fit || x.last.Served {
			w.wait(node, x, p.at, -1)
		} else if x.waits < 0 {
			w.wait(node, x, p.at, max(at, x.since))
		}
	}
}

// wait ends a stretch in which a node is not served, and begins another at from unless that is
// negative.
func (w *ward) wait(node int, x *patient, now, from time.Duration) {
	if x.waits >= 0 {
		w.unserved = append(w.unserved, Unserved{node, x.waits, now})
	}
	x.waits = from
}

// majority reports whether the nodes that are fine are one of the voters, as each of them sees
// those.
func (w *ward) majority(fine func(*patient) bool) bool {
	among, slow := make(map[string]bool), make(map[string]bool)
	for _, x := range w.all {
		if x.last != nil {
			// Where a disk has moved two have said that they are the same node.
			among[x.last.ID] = among[x.last.ID] || fine(x)
			slow[x.last.ID] = slow[x.last.ID] || x.storm > 0
		}
	}
	views := 0
	for _, x := range w.all {
		if x.last == nil || !fine(x) {
			continue
		}
		if slow[x.last.RaftLeader] {
			return false
		}
		views++
		count := 0
		for _, id := range x.last.Voters {
			if among[id] {
				count++
			}
		}
		if 2*count <= len(x.last.Voters) {
			return false
		}
	}
	return views > 0
}
