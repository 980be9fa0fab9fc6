package session

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// keepalivesMax is how many keepalives may be under way; each renews all sessions that are due.
	keepalivesMax = 4
	// keepMax is how many sessions one keepalive renews.
	keepMax = 4096
)

// Work is what is to be done now.
type Work struct {
	Keepalives []Keepalive
	Next       lease.Instant // when to call Step again at the latest
	Idle       bool          // there is no session: not before Urgent says so
}

// Keepalive renews sessions with one command, in one attempt: the plan decides on the next. Give its outcome to
// Answered, or tell Unanswered.
type Keepalive struct {
	Command  fsm.Keep
	sessions []*Session
	sent     lease.Instant
	flies    bool // it counts as under way
}

// Step tells what the group has ended, ends and warns by the clock, and returns the renewals that are due.
func (t *Table) Step(now lease.Instant) Work {
	t.urgent.Store(false)
	t.tellEnded()
	t.mu.Lock()
	acts := t.plan.Step(now)
	idle := len(t.sessions) == 0
	lapsed, shaky, due := t.pick(acts.Lost), t.pick(acts.Jeopardy), t.pick(acts.Renew)
	t.mu.Unlock()
	for _, s := range lapsed {
		t.Lose(s, ErrExpired)
	}
	for _, s := range shaky {
		s.warn(false, s.Until(), now)
	}
	due = slices.DeleteFunc(due, func(s *Session) bool { return t.retire(s, now) })
	work := Work{Next: acts.Next, Idle: idle}
	for batch := range slices.Chunk(due, keepMax) {
		if !t.takeOff() {
			break // the ones under way will tell; the plan asks again soon
		}
		k := t.Renewal(now, batch...)
		k.flies = true
		work.Keepalives = append(work.Keepalives, k)
	}
	return work
}

// tellEnded ends the leases of what the group has ended since the last call.
func (t *Table) tellEnded() {
	t.mu.Lock()
	judged, single := t.judged, t.revoked
	t.judged, t.revoked = nil, nil
	t.mu.Unlock()
	for _, r := range single { // before what ended with its session, perhaps later
		r.grant.End(r.err)
	}
	for _, s := range judged {
		t.Lose(s, ErrExpired)
		t.forget(s)
	}
}

// pick returns the sessions of these numbers. The caller holds t.mu.
func (t *Table) pick(numbers []uint64) []*Session {
	found := make([]*Session, 0, len(numbers))
	for _, n := range numbers {
		if s := t.sessions[n]; s != nil {
			found = append(found, s)
		}
	}
	return found
}

// retire closes an automatically renewed session on which nothing has hung for a TTL.
func (t *Table) retire(s *Session, now lease.Instant) bool {
	if !s.unused(now) {
		return false
	}
	t.Lose(s, ErrReleased)
	return true
}

// takeOff takes the place of a keepalive. It returns false if there is none.
func (t *Table) takeOff() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights >= keepalivesMax {
		return false
	}
	t.flights++
	return true
}

// Renewal is a keepalive for these sessions that is sent after now, whatever the plan says.
func (t *Table) Renewal(now lease.Instant, sessions ...*Session) Keepalive {
	k := Keepalive{sessions: sessions, sent: now}
	k.Command = fsm.Keep{Node: t.self.Node, Incarnation: t.self.Incarnation, Seq: t.seq.Add(1)}
	for _, s := range sessions {
		k.Command.Sessions = append(k.Command.Sessions, s.id.Number)
	}
	t.mu.RLock()
	k.Command.Lowest = t.numbers.Lowest()
	t.mu.RUnlock()
	return k
}

// Answered takes the outcome of a keepalive.
func (t *Table) Answered(k Keepalive, out fsm.Outcome, now lease.Instant) {
	t.Unanswered(k)
	for _, s := range k.sessions {
		if out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number) {
			t.Lose(s, ErrExpired)
			continue
		}
		t.mu.Lock()
		until, safe, ok := t.plan.Renewed(s.id.Number, k.sent, now)
		t.mu.Unlock()
		if !ok {
			continue
		}
		if !s.extend(until) {
			t.Lose(s, ErrExpired)
			continue
		}
		if safe {
			s.warn(true, until, now)
		}
	}
	t.urgent.Store(true)
}

// Unanswered says that the outcome of a keepalive will not be known.
func (t *Table) Unanswered(k Keepalive) {
	if k.flies {
		t.mu.Lock()
		t.flights--
		t.mu.Unlock()
	}
}

// HandOver leaves the renewal of a manual session to its caller, after a last one. Its caller begins with a whole TTL if
// the group could be reached, and else with what the last renewal in the queue left.
func (t *Table) HandOver(s *Session, now lease.Instant) {
	if t.Alive(s, now) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.plan.Open(s.id.Number, s.ttl, 0, false)
	}
}

func (s *Session) warn(safe bool, until, now lease.Instant) {
	for _, g := range s.grants() {
		g.holder.Warned(safe, time.Duration(until-now))
	}
}
