package expiry

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// FlightsMax is how many proposals a Timekeeper has under way at a time, and how many sessions and
	// how many rests one Step ends: neither waits for thousands of the other.
	FlightsMax = 64
	// PauseMax is the longest pause between two steps: timers stand still while a machine is
	// suspended.
	PauseMax = time.Second
	// retry is when an end that did not happen is proposed again.
	retry = 200 * time.Millisecond
)

// Table is the times that a replica keeps, and the proposals that are due. It is made by New.
type Table struct {
	expired func(fsm.SessionID, time.Duration)

	mu       sync.Mutex
	sessions *lease.Expiries
	others   *lease.Timers
	keys     bool // there may be Once keys
	steps    bool // something that has ended may still be there
}

// New returns an empty table. stagger is how much later than the raft leader the other voters
// propose. expired is called for each session that the group expired, with how late that was; it
// must neither block nor call the table.
func New(stagger time.Duration, expired func(session fsm.SessionID, late time.Duration)) *Table {
	return &Table{
		expired:  expired,
		sessions: lease.NewExpiries(stagger, retry), others: lease.NewTimers(stagger, retry),
	}
}

// Note takes an event of the local replica. It reports whether a Step may have something to propose
// earlier than the last one said.
func (t *Table) Note(e *fsm.Event, now lease.Instant) (wake bool) {
	switch e.Kind {
	case fsm.EventSessionRenewed, fsm.EventSessionEnded, fsm.EventResting, fsm.EventRested, fsm.EventUnfinished:
	case fsm.EventReleased:
		if e.Reason != fsm.ReasonFinished {
			return false
		}
	default:
		return false // without the lock: most events
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case fsm.EventSessionRenewed:
		t.sessions.Renewed(e.Session, e.Index, e.TTL, now)
	case fsm.EventSessionEnded:
		age, ttl, known := t.sessions.Ended(e.Session, now)
		if known && e.Reason == fsm.ReasonExpired {
			t.expired(e.Session, age-ttl)
		}
	case fsm.EventResting:
		t.others.RestBegan(fsm.Grant{Name: e.Name, Token: e.Token}, e.TTL, now)
		return true
	case fsm.EventRested:
		t.others.RestEnded(fsm.Grant{Name: e.Name, Token: e.Token})
	case fsm.EventUnfinished:
		t.steps = true
		return true
	case fsm.EventReleased: // a Once key has begun to be kept
		wake, t.keys = !t.keys, true
		return wake
	}
	return false
}

// Rests is how many places stay taken after their grant.
func (t *Table) Rests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.others.Len()
}

// Restore begins anew with a state that came as a whole: this replica does not know how old
// anything in it is. Call Step soon after it.
func (t *Table) Restore(m *fsm.Machine, now lease.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions.Reset()
	for s := range m.Sessions() {
		t.sessions.Renewed(s.ID, s.Renewed, s.TTL, now)
	}
	t.others.Reset()
	for r := range m.Rests() {
		t.others.RestBegan(fsm.Grant{Name: r.Name, Token: r.Token}, r.For, now)
	}
	t.keys = m.Info().Keys > 0
	_, t.steps = m.Unfinished()
}

// Step returns what is to be proposed at now, and when to call it again if nothing else happens:
// PauseMax later at most. read shows the state of the replica; leads says whether that believes to
// be the raft leader.
func (t *Table) Step(read func(func(*fsm.Machine)), now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over, next := t.sessions.Step(now, leads, FlightsMax)
	for _, d := range over {
		due = append(due, fsm.Expire{Session: d.ID, Renewed: d.Renewed})
	}
	rests, again := t.others.RestsDue(now, leads, FlightsMax)
	for _, r := range rests {
		due = append(due, r)
	}
	next = min(next, again, now.Add(PauseMax))
	if t.keys || t.steps {
		more, again := t.look(read, now, leads)
		due, next = append(due, more...), min(next, again)
	}
	return due, next
}

// look is the part of Step that needs the state. t.mu is held throughout: an event that the state
// has not is noted after it, and then sets keys or steps anew. The caller holds t.mu.
func (t *Table) look(read func(func(*fsm.Machine)), now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	var classes []fsm.Class
	var last uint64
	read(func(m *fsm.Machine) {
		classes = m.Classes()
		last, t.steps = m.Unfinished()
	})
	t.keys = len(classes) > 0
	due, next = t.others.TurnsDue(now, leads, classes)
	propose, again := t.others.StepDue(now, leads, last, t.steps)
	if propose {
		due = append(due, fsm.Continue{Last: last})
	}
	return due, min(next, again)
}
