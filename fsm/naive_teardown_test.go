package fsm

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// naiveEnd is an end of which something may be left: of a session, of a process's sessions, or of
// all that it waits for.
type naiveEnd struct {
	began      uint64
	of         Process
	number     uint64 // of the session, 0: the process
	waits      bool
	from, upto uint64
	visited    uint64            // session number that was looked at last
	looked     map[uint64]uint64 // request that was looked at last, by session
	how        ending
}

func (o *naive) begin(e naiveEnd) {
	e.looked = make(map[uint64]uint64)
	o.ends = append(o.ends, &e)
	slices.SortStableFunc(o.ends, func(a, b *naiveEnd) int {
		waits := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(a.began, b.began), strings.Compare(string(a.of.Node[:]), string(b.of.Node[:])),
			cmp.Compare(a.of.Incarnation, b.of.Incarnation), cmp.Compare(a.number, b.number), waits[a.waits]-waits[b.waits])
	})
}

func (o *naive) revoke(c Revoke) Outcome {
	if c.Node == (Node{}) || c.Reason == "" {
		return Outcome{Code: CodeInvalid}
	}
	for _, r := range o.runs {
		if r.Node == c.Node {
			o.endSessions(r, false, c.Upto, ending{kind: EventForced, reason: ReasonRevoked, detail: c.Reason})
		}
	}
	o.carryOut(o.number)
	return Outcome{}
}

func (o *naive) goOn(c Continue) Outcome {
	if !o.unfinished() || c.Last != o.stepped {
		return Outcome{Code: CodeFinished}
	}
	o.stepped = o.number
	for o.left > 0 && len(o.unsettled) > 0 {
		o.settle(slices.Min(slices.Collect(maps.Keys(o.unsettled))))
	}
	o.carryOut(0)
	return Outcome{}
}

func (o *naive) unfinished() bool { return len(o.ends)+len(o.unsettled) > 0 }

func (o *naive) endSession(s *naiveSession, how ending, began uint64) {
	o.say(Event{
		Kind: EventSessionEnded, Session: s.ID, TTL: s.TTL, Reason: how.reason, Detail: how.detail,
		NodeName: o.run(s.ID.Process()).name,
	})
	s.ended = true
	o.begin(naiveEnd{began: began, of: s.ID.Process(), number: s.ID.Number, how: how})
}

// endSessions ends those of a process that were opened up to a command, and with waits only what it
// waits for.
func (o *naive) endSessions(r *naiveRun, waits bool, upto uint64, how ending) {
	last := &r.ended
	if waits {
		last = &r.withdrawn
	}
	if !waits {
		upto = min(upto, cmp.Or(r.goneAt, o.number))
	}
	if upto = min(upto, o.number); upto > *last && !(waits && r.over) && len(o.sessionsOf(r.Process)) > 0 {
		o.begin(naiveEnd{began: o.number, of: r.Process, waits: waits, from: *last, upto: upto, how: how})
		*last = upto
	}
}

// sessionsOf are the sessions of a process that are there, by their numbers.
func (o *naive) sessionsOf(p Process) (all []*naiveSession) {
	for _, s := range o.sessions {
		if s.ID.Process() == p {
			all = append(all, s)
		}
	}
	return all
}

func (o *naive) ended(s *naiveSession) bool {
	return s.ended || s.opened <= o.run(s.ID.Process()).ended
}

// gone says whether a claim counts no longer.
func (o *naive) gone(c *naiveClaim) bool {
	return o.ended(c.s) || c.token == 0 && c.arrived <= o.run(c.Session.Process()).withdrawn
}

// carryOut takes a step of the ends that began by a command or later: single parts, each of which
// has a price.
func (o *naive) carryOut(began uint64) {
	var names []string
	for left := 16 * o.limits.step; left > 0; {
		at := slices.IndexFunc(o.ends, func(e *naiveEnd) bool { return e.began >= began })
		if at < 0 {
			break
		}
		e := o.ends[at]
		cost, done := o.part(e, &names)
		left -= cost
		o.work += cost
		if done {
			o.ends = slices.DeleteFunc(o.ends, func(x *naiveEnd) bool { return x == e })
			if r := o.run(e.of); r != nil && e.number == 0 {
				r.ended, r.withdrawn = o.lastEnd(e.of, false), o.lastEnd(e.of, true)
			}
		}
	}
	for _, name := range names {
		o.settle(name)
	}
}

func (o *naive) charge(cost int) {
	o.left -= cost
	o.work += cost
}

// lastEnd is up to where an end of a process as a whole is left.
func (o *naive) lastEnd(of Process, waits bool) (upto uint64) {
	for _, e := range o.ends {
		if e.of == of && e.number == 0 && e.waits == waits {
			upto = max(upto, e.upto)
		}
	}
	return upto
}

func (o *naive) part(e *naiveEnd, names *[]string) (cost int, done bool) {
	rest := slices.DeleteFunc(o.sessionsOf(e.of), func(s *naiveSession) bool { return s.ID.Number <= e.visited })
	inside := func(index uint64) bool { return index > e.from && index <= e.upto }
	switch {
	case e.number != 0:
		s := o.anySession(SessionID{e.of.Node, e.of.Incarnation, e.number})
		if mine := o.claimsOf(s); len(mine) > 0 {
			return 16 * o.drop(mine[0], e.how, names), false
		}
		if s.forget() {
			return 1, false
		}
		o.sessions = slices.DeleteFunc(o.sessions, func(x *naiveSession) bool { return x == s })
		o.letGo(e.of)
		return 16, true
	case len(rest) == 0:
		return 0, true
	case e.waits && !o.ended(rest[0]):
		s := rest[0]
		for _, c := range o.claimsOf(s) {
			if c.Request <= e.looked[s.ID.Number] {
				continue
			}
			e.looked[s.ID.Number] = c.Request
			if c.token != 0 || !inside(c.arrived) {
				return 1, false
			}
			s.finish(c.Request)
			return 1 + 16*o.drop(c, e.how, names), false
		}
	case !e.waits && !rest[0].ended && inside(rest[0].opened):
		e.visited = rest[0].ID.Number
		o.endSession(rest[0], e.how, e.began)
		return 17, false
	}
	e.visited = rest[0].ID.Number
	return 1, false
}

// forget forgets the first run of a session's finished requests; false if there is none.
func (s *naiveSession) forget() bool {
	numbers := slices.Sorted(maps.Keys(s.over))
	for i, n := range numbers {
		if n != numbers[0]+uint64(i) {
			break
		}
		delete(s.over, n)
	}
	return len(numbers) > 0
}

// drop takes a claim away and notes its names, of which it returns the number.
func (o *naive) drop(c *naiveClaim, how ending, names *[]string) int {
	rest := time.Duration(0)
	switch {
	case c.token == 0:
		how.kind = EventWithdrawn
	case how.kind != 0:
	case how.reason == ReasonClosed:
		how.kind = EventReleased
	default:
		how.kind, rest = EventLost, c.Delay
	}
	how.rest = uint64(rest / time.Millisecond)
	o.remove(c, how)
	*names = append(*names, c.names()...)
	return len(c.names())
}
