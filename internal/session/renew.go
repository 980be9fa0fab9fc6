package session

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// keepalivesMax is how many keepalives may be under way. Each renews all sessions that are due, up
// to fsm.RenewMax.
const keepalivesMax = 4

// Work is what is to be done now.
type Work struct {
	Keepalives []Keepalive
	Next       lease.Instant // when to call Step again at the latest
	Idle       bool          // there is no session: not before Urgent says so
}

// Keepalive renews sessions with one command, in one attempt: the plan decides on the next. Give
// its outcome to Answered, or tell Unanswered.
type Keepalive struct {
	Command  fsm.Keep
	sessions []*Session
	sent     lease.Instant
	flies    bool // it counts as under way
}

// Step tells what the group has ended, ends and warns by the clock, and returns the renewals that
// are due.
func (t *Table) Step(now lease.Instant) Work {
	t.urgent.Store(false)
	t.tellEnded()
	t.mu.Lock()
	acts := t.plan.Step(now)
	idle := len(t.sessions) == 0
	lapsed, shaky, due := t.pick(acts.Lost), t.pick(acts.Jeopardy), t.pick(acts.Renew)
	t.decided++
	decision := t.decided
	t.mu.Unlock()
	for _, s := range lapsed {
		t.Lose(s, ErrExpired)
	}
	for _, s := range shaky {
		s.warn(decision, false, s.Until(), now)
	}
	due = slices.DeleteFunc(due, func(s *Session) bool { return t.retire(s, now) })
	work := Work{Next: acts.Next, Idle: idle}
	for batch := range slices.Chunk(due, fsm.RenewMax) {
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
	ended, single := t.ended, t.revoked
	t.ended, t.revoked = nil, nil
	t.mu.Unlock()
	for _, g := range single { // before what ended with its session, perhaps later
		g.End(g.Err())
	}
	for _, s := range ended {
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

// Retiming is Renewal of a manually renewed session, which has this TTL from then on. From now on
// the holder relies on no more than what both TTLs leave it; on more it may rely from the outcome
// on. If that is CodeFinished the group has carried out a later one instead: ask for another.
func (t *Table) Retiming(now lease.Instant, s *Session, ttl time.Duration) Keepalive {
	t.retimes.Lock() // the plan is told of changes in the order of their numbers
	defer t.retimes.Unlock()
	k := t.Renewal(now, s)
	k.Command.TTL = ttl
	t.mu.Lock()
	defer t.mu.Unlock()
	if until, ok := t.plan.Retime(s.id.Number, k.Command.Seq, ttl, now); ok {
		s.shorten(until)
	}
	t.urgent.Store(true)
	return k
}

// Lost are the sessions of a keepalive that the group has ended, by its outcome.
func (k Keepalive) Lost(out fsm.Outcome) []*Session {
	var lost []*Session
	for _, s := range k.sessions {
		if out.Code != fsm.CodeFinished && k.lost(out, s) {
			lost = append(lost, s)
		}
	}
	return lost
}

func (k Keepalive) lost(out fsm.Outcome, s *Session) bool {
	return out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number)
}

// Answered takes the outcome of a keepalive.
func (t *Table) Answered(k Keepalive, out fsm.Outcome, now lease.Instant) {
	t.Unanswered(k)
	if out.Code == fsm.CodeFinished {
		return
	}
	for _, s := range k.sessions {
		if k.lost(out, s) {
			t.Lose(s, ErrExpired)
			continue
		}
		until, safe, alive, decision := t.extend(s, k, now)
		switch {
		case !alive:
			t.Lose(s, ErrExpired)
		case safe:
			s.warn(decision, true, until, now)
		}
	}
	t.urgent.Store(true)
}

// extend moves the end of a session's validity as the plan says. alive is false if that was over already;
// decision is the number of what the plan has decided.
func (t *Table) extend(s *Session, k Keepalive, now lease.Instant) (until lease.Instant, safe, alive bool, decision uint64) {
	t.mu.Lock() // also until the session has the new end: a change of the TTL after this may shorten it
	defer t.mu.Unlock()
	ok, ttl := false, s.TTL()
	if k.Command.TTL == 0 {
		until, safe, ok = t.plan.Renewed(s.id.Number, k.sent, now)
	} else {
		until, ttl, ok = t.plan.Retimed(s.id.Number, k.Command.Seq, k.Command.TTL, k.sent, now)
	}
	if !ok {
		return 0, false, true, 0 // the next Step says so
	}
	s.ttl.Store(int64(ttl))
	t.decided++
	return until, safe, s.extend(until), t.decided
}

// Unanswered says that the outcome of a keepalive will not be known.
func (t *Table) Unanswered(k Keepalive) {
	if k.flies {
		t.mu.Lock()
		t.flights--
		t.mu.Unlock()
	}
}

// HandOver leaves the renewal of a manual session to its caller, after a last one. Its caller
// begins with a whole TTL if the group could be reached, and else with what the last renewal in the
// queue left.
func (t *Table) HandOver(s *Session, now lease.Instant) {
	if t.Alive(s, now) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.plan.Open(s.id.Number, s.TTL(), 0, false)
	}
}

// warn tells the holders what was decided, unless they know of a later decision: Step ends leases between
// its decision and this.
func (s *Session) warn(decision uint64, safe bool, until, now lease.Instant) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if decision < s.told {
		return
	}
	s.told = decision
	for _, g := range s.grants() {
		g.holder.Warned(safe, time.Duration(until-now))
	}
}
