package model

import (
	"slices"

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

// part notes that a share of a set has its part in an event, and returns how many of its set had
// before. It is 0 for what is of no set.
func (sh *shadow) part(e *fsm.Event, names []string) int {
	if names == nil {
		return 0
	}
	for i := range sh.parts {
		p := &sh.parts[i]
		if p.kind == e.Kind && p.session == e.Session && p.request == e.Request {
			if slices.Contains(p.seen, e.Name) || p.token != e.Token {
				sh.wrong("a set is one grant", "%v of %s twice, or tokens %d and %d", e.Kind, e.Name, p.token, e.Token)
			}
			p.seen = append(p.seen, e.Name)
			return len(p.seen) - 1
		}
	}
	sh.parts = append(sh.parts, part{e.Kind, e.Session, e.Request, e.Token, names, []string{e.Name}})
	return 0
}

// complete asks whether whatever happened to a set happened to all of it.
func (sh *shadow) complete() {
	for _, p := range sh.parts {
		if len(p.seen) != len(p.names) {
			sh.wrong("a set is had whole, or not at all", "%v of %q of the set %q of request %d of %s",
				p.kind, p.seen, p.names, p.request, brief(p.session))
		}
	}
}

// served says whether a waiter should have been: it is the first in all of its queues, and all has
// room for it.
func (sh *shadow) served(name string, s *share) bool {
	if s.names == nil {
		return sh.locks[name].fits(*s)
	}
	for _, name := range s.names {
		l := sh.locks[name]
		if l == nil || len(l.waiters) == 0 || l.waiters[0].session != s.session || l.waiters[0].request != s.request {
			return false
		}
		if !l.fits(l.waiters[0]) {
			return false
		}
	}
	return true
}
