package model

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

type link struct {
	cut      int // faults that cut it
	hushed   int // and its gossip alone
	isolated int // and Raft alone
	large    int // and what is large alone
	slow     time.Duration
}

// send lets f happen on another replica when a message of Raft arrives there, which it may not do,
// or twice. A node that is in another life by then is another replica. The message is whatever f
// holds; nobody changes it after it was sent.
func (n *node) send(to replicaID, f func(*raft)) {
	if !n.ousted {
		n.w.transmit(n, to.node, n.w.plan.Net.Dup, func(r *raft) {
			if r.self == to.life && r.bound {
				f(r)
			}
		})
	}
}

// sendLarge is send of a message with entries or a snapshot, which some ways lose that bring all others: one
// with a smaller greatest packet, of which nobody tells the sender.
func (n *node) sendLarge(to replicaID, f func(*raft)) {
	if n.w.links[n.i*n.w.plan.Nodes+to.node].large > 0 {
		n.w.stats.Large++
		return
	}
	n.send(to, f)
}

// forward is send of a command, never twice: Raft bears that, but a copy of a command that its node has the
// answer to may be refused once and carried out later, and the connections of Raft deliver no message twice.
func (n *node) forward(to int, f func(*raft)) { n.w.transmit(n, to, 0, f) }

func (w *world) transmit(n *node, to int, twice float64, f func(*raft)) {
	from := n.i
	l := &w.links[from*w.plan.Nodes+to]
	if l.cut+l.isolated > 0 {
		return
	}
	net := w.plan.Net
	luck := w.chance(1, uint64(from), uint64(to), uint64(w.now))
	if !w.healed && fraction(luck) < net.Loss {
		return
	}
	s := n.stamp(to)
	w.carry(l, to, luck, s, from, f)
	if !w.healed && fraction(mix(luck, 1)) < twice {
		w.carry(l, to, mix(luck, 2), s, from, f)
	}
}

// carry delivers one copy. A message to a process that is gone by then is lost, one that was sent
// before the link was cut is not.
func (w *world) carry(l *link, to int, luck uint64, s *stamp, from int, f func(*raft)) {
	net := w.plan.Net
	d := net.Delay + within(mix(luck, 3), net.Jitter) + l.slow
	if !w.healed && net.Straggle > 0 && mix(luck, 4)%64 == 0 {
		d += within(mix(luck, 5), net.Straggle)
	}
	w.after(nil, d, func() {
		switch n := w.nodes[to]; {
		case !n.up:
		case n.paused:
			n.held = append(n.held, func() { n.receive(from, s, f) })
		default:
			n.receive(from, s, f)
		}
	})
}

func (n *node) receive(from int, s *stamp, f func(*raft)) {
	if s != nil {
		n.compare(from, s)
	}
	if n.hangs > 0 {
		n.park(func() { f(&n.raft) })
		return
	}
	f(&n.raft)
}

// gossipDoubt is how long a node is seen that gossip does not reach any more.
const gossipDoubt = 3 * time.Second

type sight struct {
	seen bool
	at   time.Duration // when
	says autopilot.Sighting
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

func (w *world) gossips(a, b int) bool {
	for _, i := range []int{a, b} {
		if n := w.nodes[i]; !n.up || n.paused {
			return false
		}
	}
	there, back := &w.links[a*w.plan.Nodes+b], &w.links[b*w.plan.Nodes+a]
	return there.cut+there.hushed+back.cut+back.hushed == 0
}

// says is what gossip shows of a node. A node without a replica waits, as its connection to one is
// not modelled. When the faults are over each must serve, so then none can do without.
func (n *node) says() autopilot.Sighting {
	s := autopilot.Sighting{
		Node: n.id.String(), Cluster: "group", Replica: n.raft.replicaID().replica(), Phase: autopilot.PhaseRunning, Here: true, Able: !n.w.healed,
	}
	switch {
	case n.leaving:
		s.Phase = autopilot.PhaseLeaving
	case !n.bound, n.asks:
		s.Phase = autopilot.PhaseJoining
	}
	return s
}

func (n *node) sees() (list []autopilot.Sighting) {
	n.gossip()
	for _, s := range n.sights {
		if s.seen {
			s.says.Here = n.w.now-s.at < gossipDoubt
			list = append(list, s.says)
		}
	}
	return list
}

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
