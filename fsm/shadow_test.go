package fsm

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The invariants of design.md that the log alone decides, by what users see: outcomes and events.
// Each failure names its invariant. The machine is replaced by a restored snapshot of itself now
// and then.
func TestRandomHistoriesKeepTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawLimits(t, false))
		l := &shadow{
			T: t, holders: make(map[string]map[uint64]Event), highest: make(map[string]uint64),
			queue: make(map[string][]Event), ended: make(map[SessionID]bool), over: make(map[requestID]bool),
			rests: make(map[string]map[uint64]Mode), finished: make(map[string]bool), opened: make(map[SessionID]uint64), limits: make(map[string]uint32), sentence: make(map[Process]uint64), places: make(map[Process]Place),
		}
		for _, r := range w.o.runs {
			l.places[r.Process] = r.place
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			c := w.command()
			if rapid.IntRange(0, 4).Draw(t, "several") == 0 {
				c = w.batch()
			}
			if rapid.IntRange(0, 4).Draw(t, "again") == 0 {
				c = rapid.SampledFrom(w.log).Draw(t, "late duplicate")
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				w.reload()
			}
			w.index++
			w.log = append(w.log, c)
			l.apply(w, c)
		}
		for last, left := w.m.Unfinished(); left; last, left = w.m.Unfinished() {
			w.index++
			l.apply(w, Continue{last})
		}
	})
}

// apply carries out a command and compares what it did with what may be.
func (l *shadow) apply(w *world, c Command) {
	first := w.o.run(ProcessOf(plain(c))) == nil
	began := w.m.Commands() + 1
	outcome, events := w.m.Apply(w.index, ProcessOf(c), Encode(c))
	w.o.apply(c) // so that the next commands make sense
	if v, via := c.(Via); via && !v.sound() {
		if outcome.Code != CodeForbidden || len(events) > 0 {
			l.Fatalf("S9: %T%+v by a client: %v, %v", v.Command, v.Command, outcome, events)
		}
		return
	}
	for _, e := range events {
		l.observe(plain(nth(c, e.Index-began)), e)
	}
	l.sentenced(plain(c), w.o.number, first && outcome.Code == CodeOK)
	l.compare(w.m, plain(c), outcome)
}

// plain is a command, or the one that a client said.
func plain(c Command) Command {
	if v, via := c.(Via); via {
		return v.Command
	}
	return c
}

// nth is the command of an entry that has the number which is so much above that of its first.
func nth(c Command, n uint64) Command {
	if b, several := c.(Batch); several {
		return b.Commands[n]
	}
	return c
}

type requestID struct {
	session SessionID
	request uint64
}

type shadow struct {
	*rapid.T
	holders map[string]map[uint64]Event // by lock and token, as granted
	highest map[string]uint64           // token ever granted, by lock
	queue   map[string][]Event
	ended   map[SessionID]bool
	over    map[requestID]bool // grants and waits that ended

	rests    map[string]map[uint64]Mode
	finished map[string]bool // Once keys
	limits   map[string]uint32
	places   map[Process]Place
	opened   map[SessionID]uint64 // by index
	sentence map[Process]uint64   // index up to which its sessions may end
}

func (l *shadow) observe(c Command, e Event) {
	id := requestID{e.Session, e.Request}
	switch e.Kind {
	case EventQueued:
		l.queue[e.Name] = append(l.queue[e.Name], e)
		l.fresh(id)
	case EventGranted:
		l.granted(e)
		l.fresh(id)
	case EventReleased, EventLost, EventForced:
		l.mayEnd(c, e)
		if _, held := l.holders[e.Name][e.Token]; !held {
			l.Fatalf("S4: a grant ended that was not there: %+v", e)
		}
		delete(l.holders[e.Name], e.Token)
		l.over[id] = true
		if c, ok := c.(Release); ok && (c.Session != e.Session || e.Reason != ReasonClosed && !slices.ContainsFunc(c.Grants, func(g Grant) bool { return g.Token == e.Token })) {
			l.Fatalf("S6: %+v released %+v", c, e)
		}
		l.finished[e.Name] = e.Reason == ReasonFinished
	case EventResting:
		if l.rests[e.Name] == nil {
			l.rests[e.Name] = make(map[uint64]Mode)
		}
		l.rests[e.Name][e.Token] = e.Mode
	case EventRested:
		delete(l.rests[e.Name], e.Token)
	case EventResized:
		l.limits[e.Name] = e.Limit
	case EventValueSet:
		if c, ok := c.(SetValue); ok && (c.Session != e.Session || c.Token != e.Token) {
			l.Fatalf("S6: %+v wrote under %+v", c, e)
		}
		if held, ok := l.holders[e.Name][e.Token]; !ok || held.Session != e.Session {
			l.Fatalf("S6: who does not hold it wrote: %+v", e)
		}
	case EventWithdrawn:
		l.queue[e.Name] = slices.DeleteFunc(l.queue[e.Name], func(q Event) bool { return same(q, e) })
		l.over[id] = true
	case EventSessionRenewed:
		if l.opened[e.Session] == 0 {
			l.opened[e.Session] = e.Index
		}
	case EventSessionEnded:
		if _, later := c.(Continue); later && l.opened[e.Session] > l.sentence[e.Session.Process()] {
			l.Fatalf("S9: nothing before %+v ended %+v", c, e)
		}
		l.ended[e.Session] = true
	}
}

// mayEnd tests S9: the command is of the process whose grant ends, or says that its time is over,
// or is an operator's, or the Hello of a process that proves the death of that one.
func (l *shadow) mayEnd(c Command, e Event) {
	switch c := c.(type) {
	case Expire:
		if c.Session == e.Session && e.Reason == ReasonExpired {
			return
		}
	case ForceRelease:
		if c.Token == e.Token {
			return
		}
	case Continue: // of an end that was said
		if l.ended[e.Session] {
			return
		}
	case Revoke:
		if c.Node == e.Session.Node {
			return
		}
	case Hello:
		if c.Node == e.Session.Node && c.Place.Boot != "" && l.places[e.Session.Process()] == c.Place {
			return
		}
	default:
		if ProcessOf(c) == e.Session.Process() {
			return
		}
	}
	l.Fatalf("S9: %T%+v ended %+v", c, c, e)
}

// sentenced notes which processes a command ends, in this step or later.
func (l *shadow) sentenced(c Command, index uint64, first bool) {
	switch c := c.(type) {
	case Goodbye:
		l.sentence[ProcessOf(c)] = index
	case Revoke:
		for id := range l.opened {
			if id.Node == c.Node {
				l.sentence[id.Process()] = max(l.sentence[id.Process()], min(c.Upto, index))
			}
		}
	case Hello:
		if first {
			l.places[ProcessOf(c)] = c.Place
		}
		for p, place := range l.places {
			if first && p.Node == c.Node && p.Incarnation < c.Incarnation && c.Place.Boot != "" && place == c.Place {
				l.sentence[p] = index
			}
		}
	}
}

func same(a, b Event) bool { return a.Session == b.Session && a.Request == b.Request }

// fresh tests that a request and its session have not ended before.
func (l *shadow) fresh(id requestID) {
	if l.over[id] || l.ended[id.session] {
		l.Fatalf("S5: %v came back", id)
	}
}

func (l *shadow) granted(e Event) {
	if e.Token <= l.highest[e.Name] {
		l.Fatalf("S2: token %d of %s after %d", e.Token, e.Name, l.highest[e.Name])
	}
	l.highest[e.Name] = e.Token
	used := e.Weight
	for _, h := range l.holders[e.Name] {
		used += h.Weight
		if h.Mode != e.Mode || e.Mode == Exclusive {
			l.Fatalf("S1: %+v and %+v hold together", h, e)
		}
	}
	if e.Mode == Permit && used > e.Limit || used > e.Weight && l.limits[e.Name] != e.Limit {
		l.Fatalf("S1: weight %d, limit %d, with %+v", used, l.limits[e.Name], e)
	}
	l.limits[e.Name] = e.Limit
	for token, mode := range l.rests[e.Name] {
		if mode != e.Mode || mode == Exclusive {
			l.Fatalf("S1: %+v was granted while #%d rests", e, token)
		}
	}
	if l.finished[e.Name] {
		l.Fatalf("a finished key ran again: %+v", e)
	}
	if queue := l.queue[e.Name]; len(queue) > 0 {
		first := slices.MinFunc(queue, func(a, b Event) int {
			return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Index, b.Index))
		})
		if !same(first, e) {
			l.Fatalf("L1: %+v overtook %+v", e, first)
		}
		l.queue[e.Name] = slices.DeleteFunc(queue, func(q Event) bool { return same(q, e) })
	}
	if l.holders[e.Name] == nil {
		l.holders[e.Name] = make(map[uint64]Event)
	}
	l.holders[e.Name][e.Token] = e
}

// compare tests that the machine holds what the shadow does, no more and no less.
func (l *shadow) compare(m *Machine, c Command, o Outcome) {
	grants := 0
	for name, holders := range l.holders {
		for token, h := range holders {
			grants++
			if over := l.ended[h.Session] || l.opened[h.Session] <= l.sentence[h.Session.Process()]; m.Granted(name, token) == over {
				l.Fatalf("S4: the session of %s #%d is over: %v, after %T%+v", name, token, over, c, c)
			}
		}
		view, _ := m.Lock(name)
		if _, left := m.Unfinished(); !left && free(view) && !l.waitsElsewhere(m, view) {
			l.Fatalf("L1: %s is free and waited for", name)
		}
	}
	for name := range l.finished {
		key, _ := OnceKey(name)
		if _, remembered := m.Key(key); !remembered {
			l.finished[name] = false
		}
	}
	if info := m.Info(); info.Grants != grants {
		l.Fatalf("S4: %d grants, %d known, after %T%+v", info.Grants, grants, c, c)
	}
	if o.Code == CodeGranted && !m.Granted(c.(Acquire).Name, o.Token) {
		l.Fatalf("S4: %+v was answered %d, which is no grant", c, o.Token)
	}
}

// free says whether somebody waits for a lock though nothing of it is taken.
func free(v Lock) bool { return len(v.Holders) == 0 && len(v.Rests) == 0 && len(v.Waiters) > 0 }

// waitsElsewhere says whether the first waiter wants a set of names, another of which cannot be had
// yet.
func (l *shadow) waitsElsewhere(m *Machine, v Lock) bool {
	first := v.Waiters[0]
	for _, name := range names() {
		other, _ := m.Lock(name)
		place := slices.IndexFunc(other.Waiters, func(h Holder) bool { return h.Session == first.Session && h.Request == first.Request })
		if place > 0 || place == 0 && !free(other) {
			return true
		}
	}
	return false
}
