package model

import (
	"bytes"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// part is the share that one entry's events had so far in a set: all of its names or none.
type part struct {
	kind    fsm.EventKind
	session fsm.SessionID
	request uint64
	token   uint64
	names   []string
	seen    []string
}

// place is one that stays taken after its holder is gone.
type place struct {
	token  uint64
	mode   fsm.Mode
	weight uint32
	lasts  time.Duration
	at     time.Duration // true time of the entry that began it
}

// record is a Once key that is finished and not forgotten.
type record struct {
	session fsm.SessionID
	token   uint64
	keep    time.Duration
	at      time.Duration // true time of the entry that finished it
}

// promise is a minimum hold in true time: until then nobody else has the place.
type promise struct {
	token uint64
	until time.Duration
	share share
	names []string
}

// namesOf are all names of a set, nil if the command is for one lock.
func namesOf(c *fsm.Acquire) []string {
	if len(c.Others) == 0 {
		return nil
	}
	return append([]string{c.Name}, c.Others...)
}

func asks(c *fsm.Acquire, name string) bool { return c.Name == name || slices.Contains(c.Others, name) }

// of says whether a name stands for another one's share: it is the same, or in the same set.
func (s *share) of(named, name string) bool {
	return named == name || slices.Contains(s.names, named)
}

// part notes that a share of a set has its part in an event, and answers how many of its set had
// before. It is 0 for what is of no set.
func (b *book) part(e *fsm.Event, names []string) int {
	if names == nil {
		return 0
	}
	for i := range b.parts {
		p := &b.parts[i]
		if p.kind == e.Kind && p.session == e.Session && p.request == e.Request {
			if slices.Contains(p.seen, e.Name) || p.token != e.Token {
				b.wrong("a set is one grant", "%v of %s twice, or tokens %d and %d", e.Kind, e.Name, p.token, e.Token)
			}
			p.seen = append(p.seen, e.Name)
			return len(p.seen) - 1
		}
	}
	b.parts = append(b.parts, part{e.Kind, e.Session, e.Request, e.Token, names, []string{e.Name}})
	return 0
}

// complete asks whether whatever happened to a set happened to all of it.
func (b *book) complete() {
	for _, p := range b.parts {
		if len(p.seen) != len(p.names) {
			b.wrong("a set is had whole, or not at all", "%v of %q of the set %q of request %d of %s",
				p.kind, p.seen, p.names, p.request, brief(p.session))
		}
	}
}

// served says whether a waiter should have been: it is the first in all of its queues, and all has
// room for it.
func (b *book) served(name string, s *share) bool {
	if s.names == nil {
		return b.locks[name].room(*s)
	}
	for _, name := range s.names {
		l := b.locks[name]
		if l == nil || len(l.waiters) == 0 || l.waiters[0].session != s.session || l.waiters[0].request != s.request {
			return false
		}
		if !l.room(l.waiters[0]) {
			return false
		}
	}
	return true
}

// leave asks for the rest that the end of a grant brings, and for the end of the promise to keep
// its place.
func (b *book) leave(e *fsm.Event, s *share) {
	if e.Kind == fsm.EventWithdrawn {
		return
	}
	want := time.Duration(0)
	if e.Kind == fsm.EventLost {
		want = s.delay.Truncate(time.Millisecond)
	} else if c, ok := b.cmd.(fsm.Release); ok {
		want = c.Rest.Truncate(time.Millisecond)
	}
	got := time.Duration(0)
	for i := range b.events {
		if r := &b.events[i]; r.Kind == fsm.EventResting && r.Name == e.Name && r.Token == e.Token {
			got = r.TTL
		}
	}
	if got != want {
		b.wrong("a place rests as long as was asked for", "token %d of %q rests for %v, not for %v", e.Token, e.Name, got, want)
	}
	if e.Kind == fsm.EventLost || e.Kind == fsm.EventForced {
		b.promises = slices.DeleteFunc(b.promises, func(p promise) bool { return p.token == e.Token })
	}
}

func (b *book) resting(e *fsm.Event) {
	g, ok := b.grants[e.Token]
	if !ok || g.name != e.Name && !slices.Contains(g.names, e.Name) {
		b.wrong("only what was held rests", "token %d of %q", e.Token, e.Name)
	}
	l := b.lock(e.Name)
	l.rests = append(l.rests, place{e.Token, e.Mode, e.Weight, e.TTL, b.w.now})
	slices.SortFunc(l.rests, func(a, b place) int { return int(a.token) - int(b.token) })
}

func (b *book) rested(e *fsm.Event) {
	l := b.lock(e.Name)
	at := slices.IndexFunc(l.rests, func(p place) bool { return p.token == e.Token })
	if c, ok := b.cmd.(fsm.EndRest); !ok || c.Name != e.Name || c.Token != e.Token || at < 0 {
		b.wrong("only EndRest ends a rest", "token %d of %q", e.Token, e.Name)
		return
	}
	b.w.rested(l.rests[at])
	l.rests = slices.Delete(l.rests, at, at+1)
}

// kept asks whether a grant takes a place that was promised to somebody for longer.
func (b *book) kept(name string, l *ledger, s share) {
	b.promises = slices.DeleteFunc(b.promises, func(p promise) bool { return p.until <= b.w.now })
	others := ledger{holders: slices.Clone(l.holders)}
	for _, p := range b.promises {
		same := func(h share) bool { return h.token == p.token }
		if slices.Contains(p.names, name) && !slices.ContainsFunc(l.holders, same) {
			others.holders = append(others.holders, p.share)
			if !others.room(s) {
				b.wrong("a lock stays taken for its minimum hold", "%q is granted %v too early after token %d",
					name, p.until-b.w.now, p.token)
			}
		}
	}
}

// unfinished asks whether a name may be claimed: it is no Once key that is finished.
func (b *book) unfinished(name string) {
	if r := b.keys[name]; r != nil {
		b.wrong("a finished key is not run again", "%q was finished with token %d, to be kept for %v", name, r.token, r.keep)
	}
}

// remembered takes over what an entry did to the memory of Once keys. No event tells that a key is
// forgotten: the book looks which are gone, and asks whether it was time.
func (b *book) remembered(m *fsm.Machine, out fsm.Outcome) {
	switch c := b.cmd.(type) {
	case fsm.Finish:
		b.acked(c.Session, c.Acked)
		b.finished(m, &c, out)
	case fsm.Sweep:
	case fsm.Turn:
		if since := b.w.now - b.applied[c.Last]; out.Code == fsm.CodeOK && !b.w.plan.Wild && since < b.w.atLeast(fsm.OncePeriod(c.Keep)) {
			b.wrong("a turn takes its period", "%v after the one before", since)
		}
		return
	default:
		return
	}
	for _, name := range b.w.names {
		r := b.keys[name]
		if r == nil {
			continue
		}
		key, _ := fsm.OnceKey(name)
		if by, ok := m.Key(key); ok {
			if by.Token != r.token || by.Session != r.session {
				b.wrong("who finished a key is remembered", "%q: %v, not token %d", key, by, r.token)
			}
			continue
		}
		delete(b.keys, name)
		b.w.forgotten(key, r)
	}
}

func (b *book) finished(m *fsm.Machine, c *fsm.Finish, out fsm.Outcome) {
	ended := slices.ContainsFunc(b.events, func(e fsm.Event) bool { return e.Kind == fsm.EventReleased && e.Token == c.Token })
	r := b.keys[c.Name]
	switch {
	case ended:
		_, left := m.Unfinished()
		if l := b.locks[c.Name]; len(l.holders) > 0 || len(l.waiters) > 0 && !left || out.Code != fsm.CodeOK {
			b.wrong("a finished key is waited for by nobody", "%v: %v", out.Code, *l)
		}
		b.keys[c.Name] = &record{c.Session, c.Token, c.Keep, b.w.now}
	case out.Code == fsm.CodeOK && (r == nil || r.token != c.Token):
		b.wrong("only its runner finishes a key", "token %d", c.Token)
	case out.Code != fsm.CodeOK && r != nil && r.token == c.Token:
		b.wrong("who finished a key is told so", "%v for token %d", out.Code, c.Token)
	}
}

// write takes over a value, which an event must tell.
func (b *book) write(name string, token uint64, value []byte) {
	b.lock(name)
	b.values[name] = value
	told := func(e fsm.Event) bool {
		return e.Kind == fsm.EventValueSet && e.Name == name && e.Token == token && bytes.Equal(e.Value, value)
	}
	if !slices.ContainsFunc(b.events, told) {
		b.wrong("events tell all that changes", "%q of %q with token %d is not told", value, name, token)
	}
}

// wrote takes the answer to a SetValue: it is carried out for the holder, once.
func (b *book) wrote(c fsm.SetValue, out fsm.Outcome) {
	a, l := b.alive(c.Session), b.lock(c.Name)
	holds := slices.ContainsFunc(l.holders, func(s share) bool { return s.session == c.Session && s.token == c.Token })
	if a == nil {
		holds = false
	}
	switch {
	case out.Code == fsm.CodeOK && (!holds || a.requests[c.Request] != 0 || c.Request < a.acked):
		b.wrong("only its holder writes a value", "token %d of %q, request %d", c.Token, c.Name, c.Request)
	case out.Code == fsm.CodeOK:
		a.requests[c.Request] = finished
		b.write(c.Name, c.Token, c.Value)
	case holds && a.requests[c.Request] == 0 && c.Request >= a.acked:
		b.wrong("a holder may write its value", "%v for token %d of %q", out.Code, c.Token, c.Name)
	}
}

// valued asks where a value comes from: a SetValue, or a grant that brings it.
func (b *book) valued(e *fsm.Event) {
	if _, ok := b.cmd.(fsm.SetValue); ok {
		return
	}
	s := slices.IndexFunc(b.lock(e.Name).holders, func(s share) bool { return s.token == e.Token && s.sets })
	if s < 0 {
		b.wrong("only its holder writes a value", "%q of %q with token %d", e.Value, e.Name, e.Token)
	}
}
