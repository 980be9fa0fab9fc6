package model

import "time"

// link is one direction between two nodes.
type link struct {
	cut      int // faults that cut it
	hushed   int // and its gossip alone
	isolated int // and Raft alone
	slow     time.Duration
}

// send lets f happen on another replica when a message of Raft arrives there, which it may not do,
// or twice. A node that is in another life by then is another replica. The message is whatever f
// holds; nobody changes it after it was sent.
func (n *node) send(to replicaID, f func(*raft)) {
	if !n.ousted {
		n.w.send(n.i, to.node, func(r *raft) {
			if r.self == to.life && r.bound {
				f(r)
			}
		})
	}
}

func (w *world) send(from, to int, f func(*raft)) {
	l := &w.links[from*w.plan.Nodes+to]
	if l.cut+l.isolated > 0 {
		return
	}
	net := w.plan.Net
	luck := w.chance(1, uint64(from), uint64(to), uint64(w.now))
	if !w.healed && fraction(luck) < net.Loss {
		return
	}
	w.carry(l, to, luck, f)
	if !w.healed && fraction(mix(luck, 1)) < net.Dup {
		w.carry(l, to, mix(luck, 2), f)
	}
}

// carry delivers one copy. A message to a process that is gone by then is lost, one that was sent
// before the link was cut is not.
func (w *world) carry(l *link, to int, luck uint64, f func(*raft)) {
	net := w.plan.Net
	d := net.Delay + within(mix(luck, 3), net.Jitter) + l.slow
	if !w.healed && net.Straggle > 0 && mix(luck, 4)%64 == 0 {
		d += within(mix(luck, 5), net.Straggle)
	}
	w.after(nil, d, func() {
		switch n := w.nodes[to]; {
		case !n.up:
		case n.paused:
			n.held = append(n.held, func() { f(&n.raft) })
		default:
			f(&n.raft)
		}
	})
}
