package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Expiries is the replica's side: the expiry of each of the group's sessions by this node's clock.
// Every replica times every session, so that a new raft leader knows their ages. Invariants:
//
//	E1 a session is not due before its TTL has passed since this replica applied its last renewal
//	E2 it is due then on the raft leader, stagger later elsewhere, and again every retry until it ended;
//	   of many that are due together those first that have been due for longest
type Expiries struct {
	stagger, retry time.Duration
	sessions       map[fsm.SessionID]*timed
	queue          queue[*timed]
}

// timed is one session. Its place in the queue may be too early, never too late: a renewal only
// notes the new expiry, in O(1), and Step moves the entry when it is first.
type timed struct {
	slot
	id      fsm.SessionID
	index   uint64 // of its last renewal
	ttl     time.Duration
	applied Instant // when this replica applied it
	due     Instant // next proposal of the raft leader to expire it
}

// Due is a session to expire, the fields of fsm.Expire.
type Due struct {
	ID      fsm.SessionID
	Renewed uint64
}

// NewExpiries returns an empty table. The other voters propose an expiry stagger later than the
// raft leader; a proposal without effect is repeated after retry.
func NewExpiries(stagger, retry time.Duration) *Expiries {
	e := &Expiries{stagger: max(0, stagger), retry: max(time.Millisecond, retry)}
	e.Reset()
	return e
}

// Renewed notes that this replica applied a renewal (or the opening) by the command of this number.
// applied must be read from the clock not before the entry reached this replica. Duplicates and
// older indices change nothing. After a restart or a snapshot the caller passes the time of the
// restore: late, never early.
func (e *Expiries) Renewed(id fsm.SessionID, index uint64, ttl time.Duration, applied Instant) {
	s, ok := e.sessions[id]
	if ok && index <= s.index {
		return
	}
	if !ok {
		s = &timed{id: id, applied: applied}
		e.sessions[id] = s
	}
	s.index, s.ttl = index, ttl
	s.applied = max(s.applied, applied)
	s.due = s.applied.Add(max(0, ttl))
	if !ok {
		s.at = s.due
		e.queue.push(s)
	} else if s.due < s.at {
		e.queue.move(s, s.due)
	}
}

// Ended notes that the group ended a session. age is the time since its last renewal on this
// replica's clock; age-ttl is the delay of an expiry. known is false for a session that is not in
// the table.
func (e *Expiries) Ended(id fsm.SessionID, now Instant) (age, ttl time.Duration, known bool) {
	s, ok := e.sessions[id]
	if !ok {
		return 0, 0, false
	}
	delete(e.sessions, id)
	e.queue.remove(s)
	return now.Sub(s.applied), s.ttl, true
}

// Reset forgets all sessions.
func (e *Expiries) Reset() {
	e.sessions = make(map[fsm.SessionID]*timed)
	e.queue = queue[*timed]{}
}

// Step returns the sessions to expire at now, at most so many, and the latest time of the next call:
// Never without sessions. raftLeader is this replica's belief, which may be wrong; when it becomes true, call
// Step at once.
func (e *Expiries) Step(now Instant, raftLeader bool, most int) (due []Due, next Instant) {
	lag := e.stagger
	if raftLeader {
		lag = 0
	}
	for {
		s, ok := e.queue.first()
		switch {
		case !ok:
			return due, Never
		case s.due > s.at: // renewed since it was queued
			e.queue.move(s, s.due)
		case s.due.Add(lag) > now:
			return due, s.due.Add(lag)
		case len(due) == most:
			return due, now
		default:
			due = append(due, Due{ID: s.id, Renewed: s.index})
			s.due = now.Add(e.retry)
			e.queue.move(s, s.due)
		}
	}
}
