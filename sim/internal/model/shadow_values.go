package model

import (
	"bytes"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// write takes over a value, which an event must tell.
func (sh *shadow) write(name string, token uint64, value []byte) {
	sh.lock(name)
	sh.values[name] = value
	told := func(e fsm.Event) bool {
		return e.Kind == fsm.EventValueSet && e.Name == name && e.Token == token && bytes.Equal(e.Value, value)
	}
	if !slices.ContainsFunc(sh.events, told) {
		sh.wrong("events tell all that changes", "%q of %q with token %d is not told", value, name, token)
	}
}

// wrote takes the answer to a SetValue: it is carried out for the holder, once.
func (sh *shadow) wrote(c fsm.SetValue, out fsm.Outcome) {
	a, l := sh.alive(c.Session), sh.lock(c.Name)
	holds := slices.ContainsFunc(l.holders, func(s share) bool { return s.session == c.Session && s.token == c.Token })
	if a == nil {
		holds = false
	}
	switch {
	case out.Code == fsm.CodeOK && (!holds || a.requests[c.Request] != 0 || c.Request < a.acked):
		sh.wrong("only its holder writes a value", "token %d of %q, request %d", c.Token, c.Name, c.Request)
	case out.Code == fsm.CodeOK:
		a.requests[c.Request] = finished
		sh.write(c.Name, c.Token, c.Value)
	case holds && a.requests[c.Request] == 0 && c.Request >= a.acked:
		sh.wrong("a holder may write its value", "%v for token %d of %q", out.Code, c.Token, c.Name)
	}
}

// valued asks where a value comes from: a SetValue, or a grant that brings it.
func (sh *shadow) valued(e *fsm.Event) {
	if _, ok := sh.cmd.(fsm.SetValue); ok {
		return
	}
	s := slices.IndexFunc(sh.lock(e.Name).holders, func(s share) bool { return s.token == e.Token && s.sets })
	if s < 0 {
		sh.wrong("only its holder writes a value", "%q of %q with token %d", e.Value, e.Name, e.Token)
	}
}
