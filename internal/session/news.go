package session

import (
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
		case fsm.ReasonFinished, fsm.ReasonWithdrawn, fsm.ReasonSuperseded, fsm.ReasonRemoved:
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
// missed. The call that opens a session may not have its answer yet: what the state says of its
// request holds for it, too.
func (t *Table) Restore(m *fsm.Machine) {
	for _, s := range t.All() {
		over, why := m.SessionEnded(s.id), ErrExpired
		for _, r := range s.open() {
			state, token := m.Request(s.id, r.number)
			if state == fsm.RequestGranted {
				s.granted(r.number, token)
				if m.Wanted(s.id, r.number) {
					s.wanted(r.number, "")
				}
				if reason := m.Asked(s.id, r.number); reason != "" {
					s.wanted(r.number, reason)
				}
				continue
			}
			var end fsm.PastGrant
			if g := r.grant; g != nil {
				end, _ = m.EndOf(g.name, g.token)
			}
			switch {
			case end.Kind == fsm.EventForced:
				t.revoke(s, r.number, forced(end.Detail))
			case state == fsm.RequestFinished: // nobody else ends a grant of a session that lives
				t.revoke(s, r.number, ErrForced)
			case end.Kind != 0:
				why = causeOf(end.Reason, end.Detail)
			}
		}
		if over {
			t.endedByGroup(s, why)
		}
	}
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
	g.over.Store(true)
	t.mu.Lock()
	t.revoked = append(t.revoked, revoked{g, err})
	t.mu.Unlock()
	t.urgent.Store(true)
}
