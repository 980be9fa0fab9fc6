package model

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/hearing"
)

// gossipDoubt is how long a node is seen that gossip does not reach any more.
const gossipDoubt = 3 * time.Second

// sight is what a node's gossip last had of another.
type sight struct {
	seen bool
	at   time.Duration // when
	says hearing.Sighting
}

// gossip brings up to date what a node sees: whatever says something to somebody that it reaches,
// itself over others, and not by the ways that Raft takes.
func (n *node) gossip() {
	w := n.w
	if n.sights == nil {
		n.sights = make([]sight, len(w.nodes))
	}
	reached, list := uint64(1)<<n.i, []int{n.i}
	for k := 0; k < len(list); k++ {
		for to := range w.nodes {
			if reached>>to&1 == 0 && w.gossips(list[k], to) {
				reached |= 1 << to
				list = append(list, to)
			}
		}
	}
	for _, i := range list {
		n.sights[i] = sight{true, w.now, w.nodes[i].says()}
	}
}

// gossips says whether two nodes exchange gossip.
func (w *world) gossips(a, b int) bool {
	for _, i := range []int{a, b} {
		if n := w.nodes[i]; !n.up || n.paused {
			return false
		}
	}
	there, back := &w.links[a*w.plan.Nodes+b], &w.links[b*w.plan.Nodes+a]
	return there.cut+there.hushed+back.cut+back.hushed == 0
}

// says is what a node tells all others of itself.
func (n *node) says() hearing.Sighting {
	s := hearing.Sighting{Node: n.id.String(), Cluster: "group", Replica: n.raft.replicaID().replica(), Phase: hearing.Runs, Here: true}
	switch {
	case n.leaving:
		s.Phase = hearing.Retires
	case !n.bound, n.asks:
		s.Phase = hearing.Joins
	}
	return s
}

// sees is what gossip shows a node.
func (n *node) sees() (list []hearing.Sighting) {
	n.gossip()
	for _, s := range n.sights {
		if s.seen {
			s.says.Here = n.w.now-s.at < gossipDoubt
			list = append(list, s.says)
		}
	}
	return list
}

// post lets f happen on a node that gossip reaches directly, unless the message is lost.
func (n *node) post(to int, f func(*node)) {
	w := n.w
	luck := w.chance(8, uint64(n.i), uint64(to), uint64(w.now))
	if !w.gossips(n.i, to) || !w.healed && fraction(luck) < w.plan.Net.Loss {
		return
	}
	w.after(nil, w.plan.Net.Delay+within(luck, w.plan.Net.Jitter), func() {
		if other := w.nodes[to]; other.up && !other.paused {
			f(other)
		}
	})
}
