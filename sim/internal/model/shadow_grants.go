package model

import (
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// differs says whether a name of a request is in use as a semaphore and asked for as a lock, or the
// other way round. No two calls of a plan give a semaphore two limits.
func (sh *shadow) differs(c *fsm.Acquire) bool {
	for _, name := range append([]string{c.Name}, c.Others...) {
		l := sh.locks[name]
		if l == nil {
			continue
		}
		other := func(s share) bool { return (s.mode == fsm.Permit) != (c.Mode == fsm.Permit) }
		rests := func(p place) bool { return (p.mode == fsm.Permit) != (c.Mode == fsm.Permit) }
		if slices.ContainsFunc(l.holders, other) || slices.ContainsFunc(l.waiters, other) || slices.ContainsFunc(l.rests, rests) {
			return true
		}
	}
	return false
}

// fits says whether a share fits beside the holders.
func (l *shadowLock) fits(s share) bool {
	used := uint64(0)
	for _, h := range l.holders {
		if h.mode != s.mode || s.mode == fsm.Exclusive {
			return false
		}
		used += uint64(h.weight)
	}
	for _, p := range l.rests {
		if p.mode != s.mode || s.mode == fsm.Exclusive {
			return false
		}
		used += uint64(p.weight)
	}
	return s.mode != fsm.Permit || len(l.holders)+len(l.rests) == 0 || used+uint64(s.weight) <= uint64(s.limit)
}

// doom notes which sessions an entry has ended as a whole, whose ends are said now or with later
// steps.
func (sh *shadow) doom(out fsm.Outcome) {
	switch c := sh.cmd.(type) {
	case fsm.Hello:
		if out.Code == fsm.CodeOK {
			sh.doomAll(c.Node, fsm.ReasonIncarnation, func(id fsm.SessionID, _ *shadowSession) bool {
				return id.Incarnation < c.Incarnation && sh.w.dead(id.Process(), c)
			})
		}
	case fsm.Goodbye:
		sh.doomAll(c.Node, fsm.ReasonLeft, func(id fsm.SessionID, _ *shadowSession) bool { return id.Incarnation == c.Incarnation })
	case fsm.Revoke:
		sh.doomAll(c.Node, fsm.ReasonRevoked, func(_ fsm.SessionID, a *shadowSession) bool { return a.opened <= c.Upto })
	}
}

// gone asks, when no step is left, whether all that has ended as a whole was said to have ended.
func (sh *shadow) gone(m *fsm.Machine) {
	switch sh.cmd.(type) {
	case fsm.Hello, fsm.Goodbye, fsm.Revoke, fsm.Continue:
	default:
		return
	}
	if _, left := m.Unfinished(); left {
		return
	}
	lives := 0
	for _, a := range sh.sessions {
		if a.doomed != 0 && !a.ended {
			lives++
		}
	}
	if lives > 0 {
		sh.wrong("what ends as a whole ends", "%d sessions are left", lives)
	}
}

func (sh *shadow) doomAll(node fsm.Node, why fsm.Reason, of func(fsm.SessionID, *shadowSession) bool) {
	for id, a := range sh.sessions {
		if id.Node == node && !a.ended && a.doomed == 0 && of(id, a) {
			a.doomed = why
		}
	}
}

// alive is a session that has not ended, nil if there is none.
func (sh *shadow) alive(id fsm.SessionID) *shadowSession {
	if a := sh.sessions[id]; a != nil && !a.ended && a.doomed == 0 {
		return a
	}
	return nil
}

// left reports whether the node of a waiter was removed since that came.
func (sh *shadow) left(s *share) bool {
	return s.index < sh.removed[fsm.Process{Node: s.session.Node, Incarnation: s.session.Incarnation}]
}

// share is what an Acquire asks for of one name.
func (sh *shadow) share(c *fsm.Acquire, e *fsm.Event) share {
	return share{
		names: namesOf(c), delay: c.Delay, sets: c.HasValue && c.Name == e.Name, value: c.Value, leads: c.Election,
		session: e.Session, request: e.Request, token: e.Token, mode: e.Mode, weight: e.Weight,
		limit: sh.w.limitOf(e.Name), priority: e.Priority, index: sh.number,
	}
}

// open finds the session of a new claim and says what is wrong with it.
func (sh *shadow) open(e *fsm.Event) *shadowSession {
	a := sh.alive(e.Session)
	if a == nil {
		sh.wrong("only an open session takes locks", "%v to %s", e.Kind, brief(e.Session))
		return nil
	}
	return a
}

func (sh *shadow) queued(e *fsm.Event) {
	a := sh.open(e)
	if a == nil {
		return
	}
	c, ok := sh.cmd.(fsm.Acquire)
	if !ok || !c.Wait || c.Session != e.Session || c.Request != e.Request || !asks(&c, e.Name) {
		sh.wrong("only an Acquire that waits is queued", "request %d of %s", e.Request, brief(e.Session))
	}
	s := sh.share(&c, e)
	if sh.part(e, s.names) == 0 {
		if was := a.requests[e.Request]; was != 0 {
			sh.wrong("a request is carried out once", "request %d of %s is queued again", e.Request, brief(e.Session))
		}
		a.requests[e.Request] = waiting
	}
	sh.unfinished(e.Name)
	l := sh.lock(e.Name)
	at := len(l.waiters)
	for at > 0 && l.waiters[at-1].priority < s.priority {
		at--
	}
	l.waiters = slices.Insert(l.waiters, at, s)
}

func (sh *shadow) grant(e *fsm.Event) {
	a := sh.open(e)
	if a == nil {
		return
	}
	l := sh.lock(e.Name)
	var s share
	first := func(o share) bool { return o.session == e.Session && o.request == e.Request }
	if at := slices.IndexFunc(l.waiters, first); at >= 0 {
		if at > 0 {
			sh.wrong("waiters are served in order", "request %d of %s for %s before request %d of %s",
				e.Request, brief(e.Session), e.Name, l.waiters[0].request, brief(l.waiters[0].session))
		}
		s = l.waiters[at]
		l.waiters = slices.Delete(l.waiters, at, at+1)
		s.token, s.index = e.Token, sh.number
		if part := sh.part(e, s.names); part == 0 && a.requests[e.Request] != waiting {
			sh.wrong("a request is carried out once", "request %d of %s is granted again", e.Request, brief(e.Session))
		}
	} else {
		c, ok := sh.cmd.(fsm.Acquire)
		if !ok || c.Session != e.Session || c.Request != e.Request || !asks(&c, e.Name) {
			sh.wrong("nobody is granted what it did not ask for", "request %d of %s", e.Request, brief(e.Session))
		}
		if len(l.waiters) > 0 {
			sh.wrong("waiters are served in order", "request %d of %s overtakes for %s", e.Request, brief(e.Session), e.Name)
		}
		s = sh.share(&c, e)
		if sh.part(e, s.names) == 0 && a.requests[e.Request] != 0 {
			sh.wrong("a request is carried out once", "request %d of %s is granted again", e.Request, brief(e.Session))
		}
	}
	if !l.fits(s) {
		sh.wrong("mutual exclusion in the log", "token %d for %q beside %v, rests %v", e.Token, e.Name, l.holders, l.rests)
	}
	if s.leads != e.Election {
		sh.wrong("an event says whether a leader was elected", "token %d of %q: %v", e.Token, e.Name, e.Election)
	}
	sh.unfinished(e.Name)
	sh.kept(e.Name, l, s)
	sh.token(e, &s)
	a.requests[e.Request] = holding
	l.holders = append(l.holders, s)
	if s.sets {
		sh.write(e.Name, e.Token, s.value)
	}
}

// token takes the token of a grant: a new one, but one for all of a set.
func (sh *shadow) token(e *fsm.Event, s *share) {
	if g, ok := sh.grants[e.Token]; ok && s.names != nil && g.session == e.Session && g.request == e.Request && g.index == sh.number {
		return
	}
	if e.Token <= sh.highest {
		sh.wrong("tokens rise", "token %d for %q after %d", e.Token, e.Name, sh.highest)
	}
	sh.highest = max(sh.highest, e.Token)
	sh.grants[e.Token] = grantee{session: e.Session, request: e.Request, name: e.Name, names: s.names, index: sh.number}
}

// over takes the end of a holder or waiter, and asks whether the command may do that.
func (sh *shadow) over(e *fsm.Event) {
	a := sh.sessions[e.Session]
	l := sh.lock(e.Name)
	list, want := &l.holders, holding
	if e.Kind == fsm.EventWithdrawn {
		list, want = &l.waiters, waiting
	}
	at := slices.IndexFunc(*list, func(s share) bool {
		return s.session == e.Session && s.request == e.Request && s.token == e.Token
	})
	if a == nil || at < 0 || sh.part(e, (*list)[at].names) == 0 && a.requests[e.Request] != want {
		sh.wrong("what ends was there", "%v of request %d of %s, token %d of %s", e.Kind, e.Request, brief(e.Session), e.Token, e.Name)
		return
	}
	s := (*list)[at]
	*list = slices.Delete(*list, at, at+1)
	a.requests[e.Request] = finished
	if e.Kind == fsm.EventForced {
		g := sh.grants[e.Token]
		g.forced = true
		sh.grants[e.Token] = g
	}
	allowed := a.ended
	switch c := sh.cmd.(type) {
	case fsm.Release:
		named := func(g fsm.Grant) bool { return g.Token == e.Token && s.of(g.Name, e.Name) }
		allowed = c.Session == e.Session && slices.ContainsFunc(c.Grants, named) && e.Kind == fsm.EventReleased
	case fsm.Finish:
		allowed = c.Name == e.Name && e.Reason == fsm.ReasonFinished &&
			(e.Kind == fsm.EventWithdrawn || e.Kind == fsm.EventReleased && c.Session == e.Session && c.Token == e.Token)
	case fsm.Withdraw:
		allowed = c.Session == e.Session && slices.Contains(c.Requests, e.Request) && e.Kind != fsm.EventLost
	case fsm.ForceRelease:
		allowed = s.of(c.Name, e.Name) && c.Token == e.Token && e.Kind == fsm.EventForced
	case fsm.Hello, fsm.Goodbye, fsm.Remove, fsm.Continue: // who waits rests on no lease
		removed := e.Kind == fsm.EventWithdrawn && e.Reason == fsm.ReasonRemoved && sh.left(&s)
		allowed = allowed || removed || e.Kind == fsm.EventWithdrawn && e.Reason == fsm.ReasonSuperseded &&
			sh.latest[e.Session.Node] > e.Session.Incarnation
	}
	if e.Kind == fsm.EventWithdrawn && e.Reason == fsm.ReasonFinished && sh.keys[e.Name] != nil {
		allowed = true // in a later step
	}
	if !allowed {
		sh.wrong("only its holder or the end of its session frees a lock", "%v of token %d of %s of %s", e.Kind, e.Token, e.Name, brief(e.Session))
	}
	sh.leave(e, &s)
}

// outcome asks whether the answer to a command is what the shadow says.
func (sh *shadow) outcome(out fsm.Outcome) {
	switch c := sh.cmd.(type) {
	case fsm.Acquire:
		sh.asked(c, out)
	case fsm.Keep:
		for _, number := range c.Sessions {
			alive := sh.alive(fsm.SessionID{Node: c.Node, Incarnation: c.Incarnation, Number: number}) != nil
			lost := slices.Contains(out.Lost, number)
			if out.Code == fsm.CodeOK && alive == lost {
				sh.wrong("a keepalive is told which sessions are lost", "number %d is open: %v, told lost: %v", number, alive, lost)
			}
			if lost {
				sh.never(fsm.SessionID{Node: c.Node, Incarnation: c.Incarnation, Number: number})
			}
		}
	case fsm.Withdraw:
		sh.acked(c.Session, c.Acked)
		if a := sh.alive(c.Session); out.Code == fsm.CodeSessionLost {
			sh.never(c.Session)
		} else if a != nil && out.Code == fsm.CodeOK {
			for _, r := range c.Requests {
				a.requests[r] = finished // also one that has not come yet
			}
		}
	case fsm.Release:
		sh.acked(c.Session, c.Acked)
		for _, g := range c.Grants {
			if l := sh.locks[g.Name]; l != nil && sh.alive(c.Session) != nil && slices.ContainsFunc(l.holders, func(s share) bool { return s.token == g.Token && s.session == c.Session }) {
				sh.wrong("what is released is free", "token %d of %s is held still", g.Token, g.Name)
			}
		}
	case fsm.Expire:
		if a := sh.alive(c.Session); a != nil && a.renewed == c.Renewed {
			sh.wrong("a session that was not renewed expires", "%v", out.Code)
		}
	case fsm.EndRest:
		if l := sh.locks[c.Name]; l != nil && slices.ContainsFunc(l.rests, func(p place) bool { return p.token == c.Token }) {
			sh.wrong("a rest that is over ends", "%v", out.Code)
		}
	case fsm.SetValue:
		sh.acked(c.Session, c.Acked)
		sh.wrote(c, out)
	case fsm.CloseSession:
		if sh.alive(c.Session) != nil {
			sh.wrong("a closed session is over", "%v", out.Code)
		}
		if out.Code == fsm.CodeOK {
			sh.never(c.Session)
		}
	}
}

// never notes that a client takes a session for lost: one that was not opened may not open any
// more.
func (sh *shadow) never(id fsm.SessionID) {
	if sh.sessions[id] == nil {
		sh.sessions[id] = &shadowSession{ended: true}
	}
}

func (sh *shadow) acked(id fsm.SessionID, acked uint64) {
	if a := sh.sessions[id]; a != nil {
		a.acked = max(a.acked, acked)
	}
}

func (sh *shadow) asked(c fsm.Acquire, out fsm.Outcome) {
	was := fate(0)
	if a := sh.alive(c.Session); a != nil {
		if a.acked = max(a.acked, c.Acked); c.Request < a.acked {
			was = finished // as far as anybody asks
		} else {
			was = a.requests[c.Request]
		}
	}
	ok := true
	switch out.Code {
	case fsm.CodeGranted:
		g := sh.grants[out.Token]
		ok = was == holding && g.session == c.Session && g.request == c.Request && g.name == c.Name && slices.Equal(g.names, namesOf(&c))
	case fsm.CodeQueued:
		ok = was == waiting
	case fsm.CodeSessionLost, fsm.CodeStaleIncarnation:
		// A superseded process may have a session yet, on which it asks for nothing any more.
		superseded := out.Code == fsm.CodeStaleIncarnation && c.Session.Incarnation < sh.latest[c.Session.Node]
		ok = sh.alive(c.Session) == nil || superseded
	case fsm.CodeDone:
		r := sh.keys[c.Name]
		ok = was != holding && was != waiting && r != nil && r.token == out.Token
	default:
		ok = was != holding && was != waiting
		if out.Code == fsm.CodeHeld && (c.Wait || sh.keys[c.Name] != nil) {
			ok = false
		}
	}
	switch out.Code {
	case fsm.CodeGranted, fsm.CodeQueued, fsm.CodeHeld, fsm.CodeLimitMismatch:
		ok = ok && sh.differs(&c) == (out.Code == fsm.CodeLimitMismatch)
	}
	if !ok {
		sh.wrong("an answer says what is", "%v, token %d; the shadow has state %d", out.Code, out.Token, was)
	}
}
