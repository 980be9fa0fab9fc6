package model

import "time"

// link is one direction between two nodes.
type link struct {
	cut  int // faults that cut it
	slow time.Duration
}

// alone says whether a voter neither reaches nor hears any other.
func (w *world) alone(i int) bool {
	for to := range w.plan.Voters {
		if to != i && (w.links[i*w.plan.Nodes+to].cut == 0 || w.links[to*w.plan.Nodes+i].cut == 0) {
			return false
		}
	}
	return w.plan.Voters > 1
}

// send lets f happen on the other node when a message arrives there, which it may not do, or twice. The
// message is whatever f holds; nobody changes it after it was sent.
func (w *world) send(from, to int, f func()) {
	l := &w.links[from*w.plan.Nodes+to]
	if l.cut > 0 {
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

// carry delivers one copy. A message to a process that is gone by then is lost, one that was sent before
// the link was cut is not.
func (w *world) carry(l *link, to int, luck uint64, f func()) {
	net := w.plan.Net
	d := net.Delay + within(mix(luck, 3), net.Jitter) + l.slow
	if !w.healed && net.Straggle > 0 && mix(luck, 4)%64 == 0 {
		d += within(mix(luck, 5), net.Straggle)
	}
	n := w.nodes[to]
	w.after(nil, d, func() {
		switch {
		case !n.up:
		case n.paused:
			n.held = append(n.held, f)
		default:
			f()
		}
	})
}
