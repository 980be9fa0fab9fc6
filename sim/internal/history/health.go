package history

import "time"

// health knows when each node, and a majority, was well.
type health struct {
	nodes  map[int][]span
	quorum []span
}

// span is a stretch of time. One that has not ended ends never.
type span struct{ from, to time.Duration }

const never = time.Duration(1<<63 - 1)

func healthOf(h []Event) health {
	x := health{nodes: make(map[int][]span)}
	turn := func(spans []span, at time.Duration, well bool) []span {
		open := len(spans) > 0 && spans[len(spans)-1].to == never
		switch {
		case well && !open:
			return append(spans, span{at, never})
		case !well && open:
			spans[len(spans)-1].to = at
		}
		return spans
	}
	for _, e := range h {
		switch e.Kind {
		case Well, Ill:
			x.nodes[e.Node] = turn(x.nodes[e.Node], e.At, e.Kind == Well)
		case Quorum:
			x.quorum = turn(x.quorum, e.At, e.OK)
		}
	}
	return x
}

// fine says whether a node and the majority were well all the time.
func (x health) fine(node int, from, to time.Duration) bool {
	in := func(spans []span) bool {
		for _, s := range spans {
			if s.from <= from && to < s.to {
				return true
			}
		}
		return false
	}
	return in(x.quorum) && in(x.nodes[node])
}
