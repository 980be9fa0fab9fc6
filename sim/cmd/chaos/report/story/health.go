package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
)

// A node is well while nothing is done to it, its process runs and gets processor and disk, and it has answered
// since then that it serves. The well nodes are a majority when each of them, as far as it knows the voters, counts one,
// and no storm is about their raft leader: a cut makes them elect another, and that must be quick, but a slow
// one may stay in office and serve badly.

// Storm is the fault that makes a network slow and lossy and does not cut it.
const Storm = "storm"

// point is a moment at which something about the fleet's health changes.
type point struct {
	at     time.Duration
	node   int
	add    int // to the illnesses of the node
	storm  int // to the storms about it
	status *Status
	from   time.Duration // the status was asked for
}

// points answers all such moments in order.
func points(lines []Line) []point {
	var all []point
	nodes := 0
	faults := make(map[int]*Fault)
	ended := make(map[int]bool)
	touch := func(at time.Duration, add int, touched ...int) {
		for _, n := range touched {
			all = append(all, point{at: at, node: n, add: add})
		}
	}
	strike := func(at time.Duration, add int, f *Fault) {
		for _, n := range f.Nodes {
			p := point{at: at, node: n, add: add}
			if f.Name == Storm {
				p.storm = add
			}
			all = append(all, p)
		}
	}
	for _, l := range lines {
		switch l.Kind {
		case KindRun:
			nodes = l.Run.Nodes
			for i := range nodes {
				touch(0, 1, i) // it has not been started
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
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.add, a.add)) // what begins, before what ends
	})
	return all
}

// patient is one node's health.
type patient struct {
	ill   int
	storm int
	since time.Duration // the last illness ended
	well  bool
	last  *Status
}

// health answers Well, Ill and Quorum as they follow from a record.
func health(lines []Line) (out []history.Event) {
	all := make(map[int]*patient)
	quorum := false
	for _, p := range points(lines) {
		x := all[p.node]
		if x == nil {
			x = &patient{}
			all[p.node] = x
		}
		was := x.well
		x.ill, x.storm = x.ill+p.add, x.storm+p.storm
		switch {
		case p.status != nil:
			x.last = p.status
			x.well = x.well || x.ill == 0 && p.from >= x.since && p.status.Ready
		case p.add < 0:
			x.since = p.at
		}
		x.well = x.well && x.ill == 0
		if x.well != was {
			kind := history.Ill
			if x.well {
				kind = history.Well
			}
			out = append(out, history.Event{At: p.at, Kind: kind, Node: p.node})
		}
		if q := majority(all); q != quorum {
			quorum = q
			out = append(out, history.Event{At: p.at, Kind: history.Quorum, OK: q})
		}
	}
	return out
}

// majority reports whether the well nodes are one of the voters, as each of them sees those.
func majority(all map[int]*patient) bool {
	well := make(map[string]bool)
	for _, x := range all {
		if x.well && x.last != nil {
			well[x.last.ID] = true
		}
	}
	slow := make(map[string]bool)
	for _, x := range all {
		if x.storm > 0 && x.last != nil {
			slow[x.last.ID] = true
		}
	}
	views := 0
	for _, x := range all {
		if !x.well || x.last == nil {
			continue
		}
		if slow[x.last.RaftLeader] {
			return false
		}
		views++
		count := 0
		for _, id := range x.last.Voters {
			if well[id] {
				count++
			}
		}
		if 2*count <= len(x.last.Voters) {
			return false
		}
	}
	return views > 0
}
