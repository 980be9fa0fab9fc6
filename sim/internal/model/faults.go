package model

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// FaultKind is what goes wrong.
type FaultKind uint8

// Faults, of a node unless they say otherwise. Each ends after Fault.For.
const (
	Crash    FaultKind = iota // the process dies and starts again; its disk stays
	Outage                    // all nodes at once
	Leave                     // it tells the group that it leaves, and crashes; the group may hear that late
	Pause                     // the process stands still, its clock does not
	Doze                      // as Pause, and the clock overlooks a few milliseconds of it
	Cut                       // the network, in both directions
	Mute                      // what it sends is lost
	Deaf                      // what is sent to it is lost
	Part                      // the link to Other
	Slow                      // its messages are late
	Lag                       // its replica applies late
	Rate                      // its clock runs at another rate, within the bound unless the plan is wild
	Jump                      // its clock jumps ahead (wild plans alone)
	Campaign                  // it stands for election at once
	Force                     // an operator frees a lock through it
	Removal                   // the group says that it has no replica any more, and it comes back
	Revoke                    // an operator on Other ends all that it holds
	Move                      // its disk is opened elsewhere while its process lives on, cut off or stopped
	Die                       // it is gone with its disk, for good, unless the group could not bear that
	Depart                    // it leaves for good; if it is not let go in time, it comes back
	Hush                      // its gossip is cut, and Raft not
	Isolate                   // Raft is cut, and its gossip not
	Bound                     // an operator sets a quota through it; of Plan.bounds
	Freeze                    // it stands still with all of its clocks; this and what follows of Plan.recast
	Large                     // what is large is lost between it and Other, or all others if that is itself
	Hang                      // its disk hangs: its engine does nothing until that goes on
)

// String is the kind in lower case.
func (k FaultKind) String() string {
	names := [...]string{"crash", "outage", "leave", "pause", "doze", "cut", "mute", "deaf", "part", "slow", "lag",
		"rate", "jump", "campaign", "force", "removal", "revoke", "move", "die", "depart", "hush", "isolate", "bound",
		"freeze", "large", "hang"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("fault(%d)", uint8(k))
}

// Fault is one thing that goes wrong for a while.
type Fault struct {
	Kind        FaultKind
	At, For     time.Duration
	Node, Other int
	Delay       time.Duration // of Slow, Lag, Doze and Jump
	Rate        float64
	Stopped     bool   `json:",omitempty"` // of Move: the former process stands still, instead of being cut off
	Copied      bool   `json:",omitempty"` // of Move: on the same machine, in another directory
	Quota       *quota `json:",omitempty"` // of Bound
}

func (p *Plan) faults(r *rand.Rand) (list []Fault) {
	var kinds []FaultKind
	for k := range Bound {
		if (k == Jump && !p.Wild) || ((k == Force || k == Revoke) && !p.Operators) || k >= Die && !p.Planned {
			continue
		}
		if !chance(r, 40) && (k < Die || !chance(r, 40)) {
			continue
		}
		kinds = append(kinds, k)
	}
	if len(kinds) == 0 {
		kinds = []FaultKind{Crash, Pause}
	}
	gap := pick(r, 500, 2000, 5000)
	at := ms(r, 0, 3000)
	dozed := make([]bool, p.Nodes)
	for at < p.Duration && len(list) < 300 {
		f := Fault{
			Kind: pick(r, kinds...), At: at, For: ms(r, 1, 2*gap), Node: r.IntN(p.Nodes),
			Delay: ms(r, 1, 300), Rate: p.rate(r),
		}
		if p.Planned && chance(r, 30) { // long enough to be given up
			f.For += p.ReplaceAfter
		}
		f.Other = (f.Node + 1 + r.IntN(p.Nodes-1)) % p.Nodes
		switch {
		case f.Kind == Doze && dozed[f.Node]:
			f.Kind = Pause // the clock may overlook one short sleep, not the sum of many
		case f.Kind == Doze:
			f.Delay, dozed[f.Node] = ms(r, 1, int(lease.MarginMin/time.Millisecond)-1), true
		case f.Kind == Jump:
			f.Delay = ms(r, 1, 10_000)
		case f.Kind == Move:
			f.Stopped, f.Copied = chance(r, 50), chance(r, 30)
		}
		if p.Wild {
			f.Rate = pick(r, 0.5, 0.9, 1, 1.1, 2, 0.01)
		}
		if p.Gentle {
			at += f.For + p.longest() + 3*time.Second
		} else {
			at += ms(r, 0, 2*gap)
		}
		list = append(list, f)
		if (f.Kind == Die || f.Kind == Depart) && !p.Gentle && chance(r, 60) { // they come in pairs
			f.Kind, f.Node, f.At = pick(r, Die, Depart), f.Other, f.At+deathsApart+ms(r, 1, pick(r, 1000, 2000*int(p.ReplaceAfter/time.Second)))
			list = append(list, f)
		}
	}
	return list
}

func (w *world) schedule() {
	for _, n := range w.nodes {
		w.ail(n, 0)
	}
	for _, f := range w.plan.Faults {
		inject := w.inject
		if f.Kind == Bound { // no node is ill by it
			inject = w.bound
		}
		w.after(nil, f.At, func() {
			if w.healed {
				return
			}
			w.stats.Faults++
			if w.trace != nil {
				w.tell("FAULT %v node %d for %v", f.Kind, f.Node, f.For.Round(time.Millisecond))
			}
			inject(f, 1)
			w.after(nil, f.For, func() {
				if !w.healed {
					inject(f, -1)
				}
			})
		})
	}
}

func (w *world) inject(f Fault, by int) {
	n := w.nodes[f.Node]
	if by > 0 && (f.Kind == Outage || f.Kind == Die || f.Kind == Cut) {
		w.recoverEarly(n)
	}
	if f.Kind == Outage {
		for _, n := range w.nodes {
			w.ail(n, by)
			w.down(n, by)
		}
		return
	}
	w.ail(n, by)
	switch f.Kind {
	case Crash:
		w.down(n, by)
	case Leave:
		if by > 0 && n.up && !n.paused && !n.raft.conf.majority(1<<n.i) { // it would hear its good-bye before it goes
			n.attempt(fsm.Encode(fsm.Goodbye{Node: n.id, Incarnation: n.incarnation}), nil)
		}
		w.down(n, by)
	case Pause, Doze:
		w.doze(n, f, by) // before the process goes on and says what its clock shows
		w.still(n, by)
	case Freeze, Large, Hang:
		w.holdUp(n, f, by)
	case Die, Depart, Hush, Isolate:
		w.unsettle(n, f.Kind, by)
	case Cut:
		w.cut(n, by, by)
	case Mute:
		w.cut(n, by, 0)
	case Deaf:
		w.cut(n, 0, by)
	case Part:
		w.ail(w.nodes[f.Other], by)
		w.links[f.Node*w.plan.Nodes+f.Other].cut += by
		w.links[f.Other*w.plan.Nodes+f.Node].cut += by
	case Slow:
		for i := range w.nodes {
			w.links[n.i*w.plan.Nodes+i].slow += time.Duration(by) * f.Delay
		}
	case Lag:
		n.lag = max(0, n.lag+time.Duration(by)*f.Delay)
	case Rate:
		if by > 0 {
			w.clock(n, f.Rate, 0)
		}
	case Jump:
		if by > 0 {
			w.clock(n, n.clock.rate, f.Delay)
		}
	case Campaign:
		w.disturbed += by
		w.health()
		if by > 0 && n.up && !n.paused && n.raft.voter() && n.raft.role != leading && !n.raft.yields() {
			n.raft.campaign()
		}
	case Force:
		w.force(n, by)
	case Removal:
		w.remove(n, w.nodes[f.Other], by)
	case Revoke:
		w.revoke(n, w.nodes[f.Other], by)
	case Move:
		w.move(n, f, by)
	}
}

func (w *world) down(n *node, by int) {
	n.downs += by
	if n.downs > 0 {
		n.crash()
	} else if !n.up && !n.retired {
		w.stats.Restarts++
		n.start()
	}
}

func (w *world) still(n *node, by int) {
	n.pauses += by
	switch {
	case !n.up:
	case n.pauses > 0:
		n.pause()
	case n.paused:
		n.resume()
	}
}

// doze has the clock overlook a part of a pause, when that ends, and of that pause alone.
func (w *world) doze(n *node, f Fault, by int) {
	switch {
	case f.Kind != Doze:
	case by > 0:
		n.clock.change(w.now, n.clock.rate, 0)
	default:
		w.clock(n, n.clock.rate, -f.Delay)
	}
}

func (w *world) cut(n *node, out, in int) {
	for i := range w.nodes {
		if i != n.i {
			w.links[n.i*w.plan.Nodes+i].cut += out
			w.links[i*w.plan.Nodes+n.i].cut += in
		}
	}
}

func (w *world) clock(n *node, rate float64, jump time.Duration) {
	n.clock.change(w.now, rate, jump)
	n.reset(&n.ends)
	n.reset(&n.keeper.timer)
}

// remove lets another node say that the group has removed this one's replica. What it holds stays,
// and what it waits for is withdrawn. It comes back with new sessions, as Cluster.comeBack does.
func (w *world) remove(n, other *node, by int) {
	if by < 0 {
		if n.up {
			n.keeper.table.UnshareAll()
		}
		return
	}
	if !other.up || other.paused {
		return
	}
	for r := range other.machine.Nodes() {
		if r.Node == n.id {
			other.attempt(fsm.Encode(fsm.Remove{Node: r.Node, Incarnation: r.Incarnation, Since: r.Since}), nil)
		}
	}
}

func (w *world) ail(n *node, by int) {
	n.ills += by
	w.health()
}

// health tells the history which nodes are well, and whether they are a majority that nobody
// disturbs.
func (w *world) health() {
	net := w.plan.Net
	faultless := w.healed || net.Loss == 0 && net.Straggle == 0
	voters := uint64(0)
	for _, n := range w.nodes {
		well := faultless && n.ills == 0 && n.serves()
		if well != n.well {
			n.well, n.wellSince = well, w.now
			kind := history.Ill
			if well {
				kind = history.Well
			}
			w.record(history.Event{Kind: kind, Node: n.i})
		}
		if well {
			voters |= 1 << n.i
		}
	}
	if quorum := w.group.majority(voters) && w.disturbed == 0; quorum != w.quorum {
		w.quorum, w.quorumSince = quorum, w.now
		w.record(history.Event{Kind: history.Quorum, OK: quorum})
	}
}
