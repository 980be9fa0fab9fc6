package session

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Call is one request for a lock. Acked is to travel with its command.
type Call struct {
	Session        *Session
	Request, Acked uint64
}

// Next is how a call goes on.
type Next uint8

// What Call.Answered returns.
const (
	Refused Next = iota // the outcome says why; nothing is left of the call
	Take                // it is granted: take it
	Wait                // until the Waiter is told
	Again               // ask with a new call: this one is over through no fault of the caller's
)

// Ask takes a request number for a call whose command is sent after now: of the shared session of
// its TTL, or of a new one. It fails with ErrBusy alone.
func (t *Table) Ask(ttl time.Duration, manual bool, w Waiter, now lease.Instant) (Call, error) {
	for {
		s := t.session(ttl, manual)
		request, acked, err := s.begin(w, now)
		switch {
		case err == nil:
			return Call{s, request, acked}, nil
		case errors.Is(err, ErrBusy):
			return Call{}, err
		}
		t.unshare(s) // it is full, or over
	}
}

// Lost is the session of a call if the group has ended it, by the outcome of the call's command.
func (c Call) Lost(out fsm.Outcome) []*Session { return lostBy(out, c.Session) }

// lostBy is the session of a request if the group has ended it, by an outcome.
func lostBy(out fsm.Outcome, s *Session) []*Session {
	if _, state := out.Code.Left(); state == fsm.RequestSessionLost {
		return []*Session{s}
	}
	return nil
}

// Answered takes the outcome of the call's command; unknown says that an earlier attempt may still
// be carried out.
func (c Call) Answered(out fsm.Outcome, unknown bool, now lease.Instant) Next {
	s := c.Session
	open, state := out.Code.Left()
	alive := open && s.table.Opened(s, state == fsm.RequestWaiting, now)
	switch {
	case state == fsm.RequestGranted && alive:
		return Take
	case state == fsm.RequestWaiting && alive:
		return Wait
	case state == fsm.RequestGranted, state == fsm.RequestWaiting:
		return Again
	case state == fsm.RequestSessionLost:
		s.endedByGroup(ErrExpired)
		s.table.Lose(s, ErrExpired)
	case state == fsm.RequestUnknown && (unknown || out.Code != fsm.CodeTooManyRequests):
		c.GiveUp(unknown) // the session stays, also of a process that the group does not know: another call may have opened it
	default: // the group remembers the request, or has no room even for its withdrawal
		c.drop()
	}
	full := out.Code == fsm.CodeTooManyRequests && s.usedUp()
	if full {
		s.table.unshare(s)
	}
	if full && !unknown || out.Code == fsm.CodeFinished || out.Code == fsm.CodeSessionLost {
		return Again
	}
	return Refused
}

// GiveUp ends a call that leads to no lease. Where the group may have its command, it is to be
// withdrawn.
func (c Call) GiveUp(sent bool) {
	s := c.Session
	over := s.abandon(c.Request)
	switch {
	case s.manual:
		if !sent {
			s.Finish(c.Request)
			s.table.discard(s) // if the group never opened it
		}
		s.table.Lose(s, ErrReleased)
	case sent:
		s.table.Withdraw(s, c.Request)
	case over:
		c.drop()
	default:
		s.table.Skip(s, c.Request)
	}
}

// drop ends a call of which nothing is left, and whose number leaves no gap.
func (c Call) drop() {
	s := c.Session
	s.abandon(c.Request)
	if s.manual {
		s.table.Lose(s, ErrReleased)
		return
	}
	s.Finish(c.Request)
	s.table.discard(s)
}

// Skip ends a request that the group does not remember: its command was never sent, or it was
// refused without a trace. The group remembers all later ones while an earlier one waits, as runs
// of numbers, and each number that it never hears of splits a run for good. So it hears of this one.
func (t *Table) Skip(s *Session, request uint64) {
	if s.leavesGap(request) {
		t.Withdraw(s, request)
		return
	}
	s.Finish(request)
	t.discard(s)
}

// Take makes g the grant of a call in the hands of h. It returns false if the grant is over
// already; the call is then to be made again.
func (c Call) Take(g *Grant, h Holder, name string, token uint64, terms Terms, now lease.Instant) bool {
	g.begin(c, h, name, token, terms, now)
	if c.Session.adopt(g) != nil {
		c.drop()
		return false
	}
	return c.Session.table.Alive(c.Session, now)
}
