package session

import (
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// Note takes an event of the local replica, in the order of the log. What a holder or a waiter
// learns by it, Restore must be able to tell from a state. A grant that its holder gives back, or
// that ends with its session, is no news of its own.
func (t *Table) Note(e *fsm.Event) {
	if e.Session.Node != t.self.Node || e.Session.Incarnation != t.self.Incarnation {
		return
	}
	switch e.Kind {
	case fsm.EventGranted:
		if !e.Waited {
			return // the call has it from its outcome
		}
	case fsm.EventWithdrawn:
		switch e.Reason {
		case fsm.ReasonFinished, fsm.ReasonWithdrawn, fsm.ReasonSuperseded, fsm.ReasonRemoved, fsm.ReasonResized:
		default: // with its session
			return
		}
	case fsm.EventSessionEnded, fsm.EventForced, fsm.EventWanted:
	default:
		return
	}
	s := t.Get(e.Session.Number)
	if s == nil {
		return
	}
	switch e.Kind {
	case fsm.EventGranted:
		s.granted(e.Request, e.Token)
	case fsm.EventWithdrawn:
		t.revoke(s, e.Request, nil)
	case fsm.EventSessionEnded:
		t.endedByGroup(s, causeOf(e.Reason, e.Detail))
	case fsm.EventForced:
		t.revoke(s, e.Request, forced(e.Detail))
	case fsm.EventWanted:
		s.wanted(e.Request, e.Detail)
	}
}

// Restore compares every session with a state that came as a whole, and in which single events were
// missed: ask answers questions of that state, or of later ones. The call that opens a session may
// not have its answer yet: what the state says of its request holds for it, too. It ends with the
// first error of ask, and does no harm when it is called again.
func (t *Table) Restore(ask Ask) error { return t.compare(t.All(), ask) }

// Ask asks the group about sessions.
type Ask func(fsm.QueryClaims) (fsm.ClaimsState, error)

// Explain finds out why the group has ended sessions. An answer says only that it has, and the news that
// say why may come after the answer, or be lost with a replica. The sessions are valid no more from now
// on. After an error of ask they end as if they had expired.
func (t *Table) Explain(ask Ask, lost ...*Session) error {
	lost = slices.DeleteFunc(lost, func(s *Session) bool { return s.groupCause.Load() != nil || s.Ended() != nil })
	for _, s := range lost {
		s.until.Store(int64(never))
	}
	return t.compare(lost, ask)
}

// compare compares sessions with a state.
func (t *Table) compare(sessions []*Session, ask Ask) error {
	why := ErrExpired
	for _, parts := range divide(sessions) {
		q := fsm.QueryClaims{Process: t.self, Sessions: make([]fsm.SessionClaims, len(parts))}
		for i, p := range parts {
			q.Sessions[i] = p.question()
		}
		answer, err := ask(q)
		if err != nil {
			return err
		}
		for i, p := range parts {
			if i < len(answer.Sessions) && len(answer.Sessions[i].Claims) == len(p.claims) {
				why = t.restore(p, answer.Sessions[i], why)
			}
		}
	}
	return nil
}

// part is as much of a session as one question asks about.
type part struct {
	s      *Session
	claims []request
	more   bool // the next part is of this session, too
}

// divide divides sessions among questions.
func divide(sessions []*Session) (questions [][]part) {
	room := 0
	add := func(p part) {
		if room < 1+len(p.claims) {
			questions, room = append(questions, nil), fsm.QueryClaimsMax
		}
		last := len(questions) - 1
		questions[last] = append(questions[last], p)
		room -= 1 + len(p.claims)
	}
	for _, s := range sessions {
		claims := s.open()
		for len(claims) >= fsm.QueryClaimsMax {
			add(part{s, claims[:fsm.QueryClaimsMax-1], true})
			claims = claims[fsm.QueryClaimsMax-1:]
		}
		add(part{s, claims, false})
	}
	return questions
}

func (p part) question() fsm.SessionClaims {
	of := fsm.SessionClaims{Number: p.s.id.Number, Claims: make([]fsm.ClaimQuery, len(p.claims))}
	for i, r := range p.claims {
		of.Claims[i].Request = r.number
		if g := r.grant; g != nil {
			of.Claims[i].Grant = fsm.Grant{Name: g.name, Token: g.token}
		}
	}
	return of
}

// restore takes what became of a part of a session. why is the cause of its end, as far as its
// parts before this one tell; that of the next part is returned.
func (t *Table) restore(p part, state fsm.SessionState, why error) error {
	for i, c := range state.Claims {
		s, number := p.s, p.claims[i].number
		switch {
		case c.State == fsm.RequestGranted:
			s.granted(number, c.Token)
			if c.Wanted {
				s.wanted(number, "")
			}
			if c.Asked != "" {
				s.wanted(number, c.Asked)
			}
		case c.End != nil && c.End.Kind == fsm.EventForced:
			t.revoke(s, number, forced(c.End.Detail))
			if c.End.Reason == fsm.ReasonRevoked { // also of what this session was granted after the question
				why = causeOf(c.End.Reason, c.End.Detail)
			}
		case c.State == fsm.RequestFinished: // nobody else ends a grant of a session that lives
			t.revoke(s, number, ErrForced)
		case c.End != nil:
			why = causeOf(c.End.Reason, c.End.Detail)
		}
	}
	if p.more {
		return why
	}
	if state.Ended {
		t.endedByGroup(p.s, why)
	}
	return ErrExpired
}

// endedByGroup takes a session that the group has ended: its validity is over now, its leases end
// with the next Step.
func (t *Table) endedByGroup(s *Session, cause error) {
	s.endedByGroup(cause)
	t.mu.Lock()
	t.ended = append(t.ended, s)
	t.mu.Unlock()
	t.urgent.Store(true)
}

// revoke ends one request that the group has ended: its grant, or the waiting of its call.
func (t *Table) revoke(s *Session, request uint64, cause error) {
	err := Lost(cause)
	g := s.revoke(request, err)
	if g == nil {
		return
	}
	g.revoke(err)
	t.mu.Lock()
	t.revoked = append(t.revoked, g)
	t.mu.Unlock()
	t.urgent.Store(true)
}
