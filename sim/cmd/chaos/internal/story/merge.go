package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Causes of what a process had under way when it ended.
const (
	CauseDied   = "its process ended"
	CauseClosed = "its node closes"
)

// Merge makes one history of a record. Every moment is chosen so that what the checkers then find
// did happen: a call begins before it was made, an answer comes after it was there, and a lease was
// valid from after the first look at it to before the last one.
func Merge(lines []Line) []history.Event {
	m := merger{lives: make(map[life]*open), stops: stops(lines), seen: make(map[uint64]bool)}
	for _, l := range lines {
		switch {
		case l.Kind == KindStart:
			m.out = append(m.out, history.Event{At: l.From, Kind: history.Opens, Node: l.Node, OK: l.Proof})
		case l.Kind == KindExit:
			m.out = append(m.out, history.Event{At: l.To, Kind: history.Dies, Node: l.Node})
			m.exit(l)
		case l.Kind == KindDone: // its leases are over before it says so
			m.out = append(m.out, history.Event{At: l.From, Kind: history.Closes, Node: l.Node})
		case l.Kind == KindClosing:
			m.out = append(m.out, history.Event{At: l.From, Kind: history.Closes, Node: l.Node})
			for _, e := range m.of(l).grants {
				m.out = append(m.out, over(e, l.From, CauseClosed))
			}
		case l.Kind == KindEvent && l.Event != nil:
			m.event(l)
		}
	}
	events, _ := health(lines)
	m.out = append(m.out, events...)
	slices.SortStableFunc(m.out, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return m.out
}

type life struct{ node, number int }

type open struct {
	asked  map[uint64]history.Event // by op
	grants map[uint64]history.Event // by token
	hears  map[uint64]history.Event // who observes or watches, by op
}

type merger struct {
	lives map[life]*open
	stops map[int][]span
	seen  map[uint64]bool // tokens that were found valid
	out   []history.Event
}

func (m *merger) of(l Line) *open {
	key := life{l.Node, l.Life}
	if m.lives[key] == nil {
		m.lives[key] = &open{
			asked: make(map[uint64]history.Event), grants: make(map[uint64]history.Event), hears: make(map[uint64]history.Event),
		}
	}
	return m.lives[key]
}

func (m *merger) event(l Line) {
	e, o := *l.Event, m.of(l)
	e.Node, e.At = l.Node, l.To
	switch e.Kind {
	case history.Asked:
		e.At = l.From
		o.asked[e.Op] = e
	case history.Release, history.Verify, history.Look, history.Set, history.Begun, history.Who, history.Unheard, history.Force, history.Revoke:
		e.At = l.From
	case history.Observing:
		e.At = l.From
		o.hears[e.Op] = e
	case history.Watching: // what happens after the call is told
		o.hears[e.Op] = e
	case history.Granted, history.Refused:
		until := o.asked[e.Op].Until
		e.Until = m.answered(l.Node, until, l.To)
		if e.Kind == history.Refused && until > 0 {
			e.At = min(e.At, until) // the caller did not wait any more
		}
		delete(o.asked, e.Op)
		if e.Kind == history.Granted {
			o.grants[e.Token] = e
		}
	case history.Held:
		if m.seen[e.Token] {
			e.At = l.From
		}
		m.seen[e.Token] = true
		if e.Remaining != 0 { // else it is not known
			e.Remaining -= l.To - l.From
		}
	case history.Ended:
		delete(o.grants, e.Token)
	}
	if e.Kind == history.Unheard {
		delete(o.hears, e.Op)
	}
	if e.Kind == history.Release {
		delete(o.grants, e.Token) // over for its holder, whatever the group answers
	}
	m.out = append(m.out, e)
}

// answered is when a call with that deadline answered, not counting how long the process stood
// still after it.
func (m *merger) answered(node int, until, at time.Duration) time.Duration {
	if until == 0 || at <= until {
		return at
	}
	late := at - until
	for _, s := range union(m.stops[node]) {
		if both := min(at, s.to) - max(until, s.from); both > 0 {
			late -= both
		}
	}
	return until + max(late, 0)
}

func (m *merger) exit(l Line) {
	o := m.of(l)
	for _, e := range o.asked {
		if e.Until > 0 {
			e.Until = min(l.To, e.Until)
		}
		m.out = append(m.out, history.Event{
			At: min(l.To, max(e.Until, e.At)), Kind: history.Refused, Op: e.Op, Node: e.Node, Lock: e.Lock, Until: e.Until, Cause: CauseDied,
		})
	}
	for _, e := range o.grants {
		m.out = append(m.out, over(e, l.To, CauseDied))
	}
	for _, e := range o.hears {
		m.out = append(m.out, history.Event{At: l.From, Kind: history.Unheard, Op: e.Op, Node: e.Node, Lock: e.Lock})
	}
	delete(m.lives, life{l.Node, l.Life})
}

func over(grant history.Event, at time.Duration, cause string) history.Event {
	return history.Event{At: at, Kind: history.Ended, Node: grant.Node, Lock: grant.Lock, Token: grant.Token, Cause: cause}
}

type span struct{ from, to time.Duration }

func stops(lines []Line) map[int][]span {
	all := make(map[int][]span)
	nodes := 0
	for _, l := range lines {
		if l.Run != nil {
			nodes = l.Run.Nodes
		}
		if l.Kind != KindStall {
			continue
		}
		if l.Node >= 0 {
			all[l.Node] = append(all[l.Node], span{l.From, l.To})
			continue
		}
		for i := range nodes {
			all[i] = append(all[i], span{l.From, l.To})
		}
	}
	return all
}

// union returns the same time without overlaps, in order.
func union(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []span
	for _, s := range sorted {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}
