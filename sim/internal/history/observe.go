package history

import (
	"slices"
	"time"
)

type observer struct{ *hearer }

// Observers finds what one who observes an election may not be told: leaders out of order or twice,
// the end of a leader who leads on; and what it is not told although its node and the majority were
// well all the time: a leader, an end, a vacancy. What it reads first is looked at by
// ReadsAreCurrent.
func Observers(h []Event, b Bounds) (found []Violation) {
	all, x, missed := grants(h), healthOf(h), gaps(h, b)
	var of = make(map[string][]*grant)
	for _, g := range all {
		if g.exclusive() {
			for _, name := range g.Names() {
				of[name] = append(of[name], g)
			}
		}
	}
	for _, gs := range of {
		slices.SortFunc(gs, func(a, b *grant) int { return a.granted - b.granted })
	}
	for _, heard := range hearers(h, Observing, Observed) {
		o := observer{heard}
		found = append(found, o.order(h)...)
		found = append(found, o.truth(h, of[o.Lock])...)
		if len(o.told) > 0 {
			found = append(found, o.hears(h, b, x, missed[o.Node], of[o.Lock])...)
		}
	}
	return found
}

func (o observer) order(h []Event) (found []Violation) {
	var last uint64
	for n, i := range o.told {
		e := h[i]
		if n > 0 {
			switch p := h[o.told[n-1]]; {
			case e.Token == p.Token && e.Value == p.Value:
				found = append(found, broken("an observer is told once", e.At, o.Lock,
					"op %d on node %d was told of token %d twice in a row", o.Op, o.Node, e.Token))
			case e.Token != 0 && (e.Token < last || e.Token == last && p.Token == 0):
				found = append(found, broken("an observer is told in order", e.At, o.Lock,
					"op %d on node %d was told of token %d after %d", o.Op, o.Node, e.Token, last))
			}
		}
		last = max(last, e.Token)
	}
	return found
}

// truth demands that no end is told of a leader who leads on.
func (o observer) truth(h []Event, of []*grant) (found []Violation) {
	var last uint64
	for _, i := range o.told {
		e := h[i]
		for _, g := range of {
			ended := g.Token < e.Token || e.Token == 0 && g.Token == last
			if ended && g.heldAfter(i) {
				found = append(found, broken("an observer is told the truth", e.At, o.Lock,
					"op %d on node %d was told of token %d (0: nobody), and that of token %d was valid still at %v",
					o.Op, o.Node, e.Token, g.Token, h[g.last].At))
			}
		}
		last = max(last, e.Token)
	}
	return found
}

// at is the place in told of the first one that tells of a token, or of anything after it if later;
// -1 if none does.
func (o observer) at(h []Event, token uint64, later bool) int {
	seen := false
	for n, i := range o.told {
		t := h[i].Token
		if !later && t == token || later && (t > token || t == 0 && seen) {
			return n
		}
		seen = seen || t >= token
	}
	return -1
}

// gaps are the times at which watchers on clients that keep up were told of a gap, by node: the client
// has come to another replica, of which it learns the latest alone.
func gaps(h []Event, b Bounds) map[int][]time.Duration {
	all := make(map[int][]time.Duration)
	for _, w := range watchers(h) {
		if b.Client == nil || !b.Client(w.Node) || h[w.begun].Pause > 0 {
			continue
		}
		for _, i := range w.told {
			if h[i].Change == ChangeResync {
				all[w.Node] = append(all[w.Node], h[i].At)
			}
		}
	}
	return all
}

// hears demands that leaders are told of, and that they are not any more, in time. One who led only
// while something was missed may be left out.
func (o observer) hears(h []Event, b Bounds, x health, missed []time.Duration, of []*grant) (found []Violation) {
	begun := o.told[0]
	left := func(g *grant, due time.Duration) bool {
		n := o.at(h, g.Token, true)
		return n >= 0 && h[o.told[n]].At <= due &&
			slices.ContainsFunc(missed, func(at time.Duration) bool { return h[g.asked].At <= at && at <= due })
	}
	late := func(g *grant, n int, since time.Duration, what string) {
		due := since + b.Late
		if due > o.until || !x.fine(o.Node, h[g.asked].At, due) || n >= 0 && h[o.told[n]].At <= due {
			return
		}
		found = append(found, broken("an observer is told all in time", due, o.Lock,
			"op %d on node %d was not told of %s of token %d", o.Op, o.Node, what, g.Token))
	}
	for k, g := range of {
		if g.asked < begun {
			continue
		}
		if !left(g, h[g.granted].At+b.Late) {
			late(g, o.at(h, g.Token, false), h[g.granted].At, "the grant")
		}
		if g.over() >= 0 {
			late(g, o.at(h, g.Token, true), h[g.over()].At, "the end")
		} else if g.ended >= 0 {
			late(g, o.at(h, g.Token, true), h[g.ended].At+g.ttl(b), "the end")
		}
		// A call that asked after the end follows a vacancy, if that was told of at all.
		if k+1 == len(of) || g.over() < 0 || of[k+1].asked < g.over() {
			continue
		}
		next := of[k+1]
		n := o.at(h, next.Token, false)
		if n > 0 && h[o.told[n-1]].Token == g.Token && x.fine(o.Node, h[g.asked].At, h[o.told[n]].At) && !left(g, h[o.told[n]].At) {
			found = append(found, broken("an observer is told of vacancies", h[o.told[n]].At, o.Lock,
				"op %d on node %d was told of token %d right after %d, which had been over before", o.Op, o.Node, next.Token, g.Token))
		}
	}
	return found
}

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
