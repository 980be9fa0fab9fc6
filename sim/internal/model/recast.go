package model

import (
	"math/rand/v2"
	"slices"
	"time"
)

// recast makes some faults of a plan those of other kinds, which came later: by no draw of the others.
func (p *Plan) recast(r *rand.Rand) {
	var kinds []FaultKind
	for len(kinds) == 0 {
		for k := Freeze; k <= Hang; k++ {
			if chance(r, 50) || k == Large && p.Planned && chance(r, 70) {
				kinds = append(kinds, k)
			}
		}
	}
	share := pick(r, 20, 40, 80)
	for i := range p.Faults {
		f := &p.Faults[i]
		if f.Kind == Die || f.Kind == Depart || !chance(r, share) {
			continue
		}
		switch f.Kind = pick(r, kinds...); {
		case f.Kind == Freeze && chance(r, 20):
			f.For = ms(r, 1, 150) // about what a comparison of clocks may overlook
		case f.Kind == Large:
			if chance(r, 60) {
				f.Other = f.Node
			}
		}
	}
	if p.Planned && slices.Contains(kinds, Large) {
		p.givesUp(r)
	}
	p.Compared = p.Compared || slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Freeze })
}

// givesUp has a voter make no progress for so long that it is given up: where little else goes wrong.
func (p *Plan) givesUp(r *rand.Rand) {
	voter := r.IntN(p.Voters)
	long := Fault{Kind: Large, At: ms(r, 0, int(p.Duration/time.Millisecond/4)), Node: voter, Other: voter}
	long.For = p.ReplaceAfter + ms(r, 2000, int(p.ReplaceAfter/time.Millisecond))
	spared, room := pick(r, 0, 0, 5), time.Duration(0)
	if p.Gentle {
		spared, room = 0, p.longest()+3*time.Second
	}
	p.Faults = append(slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return f.At < long.At+long.For+room && f.At+f.For+room > long.At && !chance(r, spared)
	}), long)
}

// holdUp begins or ends a fault of these kinds.
func (w *world) holdUp(n *node, f Fault, by int) {
	switch f.Kind {
	case Freeze:
		w.freeze(n, by)
	case Large:
		w.large(n, f, by)
	case Hang:
		w.hang(n, by)
	}
}

// hang has the disk of a node stand still, or go on.
func (w *world) hang(n *node, by int) {
	if n.hangs += by; n.hangs == 0 {
		w.stats.Hung += uint64(min(1, len(n.parked)))
		n.unpark()
	}
}

// large cuts ways for what is large. A raft leader that reaches nobody with an entry stays one, as its
// heartbeats are answered.
func (w *world) large(n *node, f Fault, by int) {
	for i := range w.nodes {
		if i != n.i && (i == f.Other || f.Other == n.i) {
			w.links[n.i*w.plan.Nodes+i].large += by
			w.links[i*w.plan.Nodes+n.i].large += by
		}
	}
	if f.Other == n.i {
		w.disturbed += by
		w.health()
	} else {
		w.ail(w.nodes[f.Other], by)
	}
}
