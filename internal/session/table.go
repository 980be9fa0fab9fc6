package session

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// unheardMax bounds the ends that are owed of sessions that the group never opened.
const unheardMax = 64

// Table has all sessions of one process. See the package comment for how to run it.
type Table struct {
	self   fsm.Process
	seq    atomic.Uint64 // of keepalives: a late duplicate renews nothing
	urgent atomic.Bool   // Step has something to do

	mu       sync.RWMutex
	plan     *lease.Plan
	numbers  lease.Numbers
	sessions map[uint64]*Session
	shared   map[time.Duration]*Session // the automatically renewed ones
	ended    []*Session                 // ended by the group: Step tells their holders
	revoked  []*Grant                   // the same of single grants
	flights  int                        // keepalives under way
	unheard  int                        // sessions that were never opened and whose end is owed
	decided  uint64                     // how often it was decided that holders are to be warned

	retimes sync.Mutex // taken before mu

	debts debts
}

// New returns an empty table. drift and jitter are those of lease.NewPlan.
func New(drift float64, jitter func() float64) *Table {
	t := &Table{
		plan:     lease.NewPlan(drift, jitter),
		sessions: make(map[uint64]*Session),
		shared:   make(map[time.Duration]*Session),
	}
	t.debts.jobs = make(map[*Session]*Debt)
	return t
}

// Identify says which process the sessions are of, before the first of them is asked for.
func (t *Table) Identify(self fsm.Process) { t.self = self }

// Urgent reports whether Step has something to do that it did not name a time for.
func (t *Table) Urgent() bool { return t.urgent.Load() }

// session returns the session for a lease: the shared one of its TTL, or one of its own.
func (t *Table) session(ttl time.Duration, manual bool) *Session {
	if !manual {
		t.mu.RLock()
		s := t.shared[ttl]
		t.mu.RUnlock()
		if s != nil {
			return s
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.shared[ttl]; s != nil && !manual {
		return s
	}
	id := fsm.SessionID{Node: t.self.Node, Incarnation: t.self.Incarnation, Number: t.numbers.Begin()}
	s := &Session{table: t, id: id, manual: manual, claims: make(map[uint64]*claim)}
	s.ttl.Store(int64(ttl))
	t.sessions[id.Number] = s
	if !manual {
		t.shared[ttl] = s
	}
	return s
}

// unshare takes no more leases onto a session: the next lease of its TTL opens another one. Those
// that it has stay.
func (t *Table) unshare(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared[s.TTL()] == s {
		delete(t.shared, s.TTL())
	}
}

// UnshareAll takes no more leases onto any session. The group takes a process that it has removed
// for one that is here again when it opens one: what it waits for then is withdrawn when its node
// is removed the next time.
func (t *Table) UnshareAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.shared)
}

// Opened notes that the group has the session. It returns false if its validity is over already.
// While its call is queued, a manual session is renewed automatically, too: otherwise the call
// would lose its place in the queue after a TTL.
func (t *Table) Opened(s *Session, queued bool, now lease.Instant) bool {
	if s.valid(now) {
		return true
	}
	s.mu.Lock()
	if !s.opened && s.over == nil {
		s.opened = true
		t.mu.Lock() // until the session has its validity: a keepalive for it, too, would find it over before
		s.begins(t.plan.Open(s.id.Number, s.TTL(), s.first, !s.manual || queued))
		t.mu.Unlock()
		t.urgent.Store(true)
	}
	stray := s.forsaken
	s.mu.Unlock()
	alive := t.Alive(s, now)
	if !alive && stray { // a call of the group that was given up has opened it in the next one
		t.owe(s, func(d *Debt) { d.close, d.lost = true, true })
	}
	return alive
}

// Alive ends the session if its validity has passed, and reports whether it lives or is still to be
// opened.
func (t *Table) Alive(s *Session, now lease.Instant) bool {
	if s.valid(now) {
		return true
	}
	s.mu.Lock()
	alive := s.over == nil
	lapsed := alive && s.opened && now >= s.Until()
	s.mu.Unlock()
	if lapsed {
		t.Lose(s, ErrExpired)
	}
	return alive && !lapsed
}

// Lose ends a session and everything on it. Where the group may still have it, it is to be closed
// there, so that its locks are free before its TTL is over.
func (t *Table) Lose(s *Session, cause error) {
	byGroup := s.groupCause.Load()
	if byGroup != nil {
		cause = *byGroup
	}
	err := Lost(cause)
	grants, ok := s.end(err)
	if !ok {
		return
	}
	t.unshare(s)
	t.mu.Lock()
	t.plan.Remove(s.id.Number)
	t.mu.Unlock()
	for _, g := range grants {
		g.End(err)
	}
	if byGroup != nil {
		t.forget(s)
	} else {
		t.owe(s, func(d *Debt) { d.close, d.lost = true, !errors.Is(cause, ErrReleased) })
	}
}

// LoseAll ends every session for cause.
func (t *Table) LoseAll(cause error) {
	for _, s := range t.All() {
		t.Lose(s, cause)
	}
}

// Forsake ends every session for cause, without a word to the group: it is given up.
func (t *Table) Forsake(cause error) {
	for _, s := range t.All() {
		s.mu.Lock()
		s.forsaken = true
		s.mu.Unlock()
		s.endedByGroup(cause)
		t.Lose(s, cause)
		t.forget(s) // also where its end was on its way to the group
	}
}

// discard drops a session that the group never opened, once nothing hangs on it: its calls gave up
// before the group could be reached, or were refused. Without that each TTL asked for in an outage
// would stay forever. The group hears of a number above others in use: it remembers runs of used
// numbers, too, and one that it never hears of splits a run for as long as an earlier session lives.
// In an outage it hears of the first unheardMax alone. Those that follow make one gap together, or one
// more for each session in between that a call waits on: a process with more than fsm.NumbersMax of
// those opens no further session until its earliest one is over.
func (t *Table) discard(s *Session) {
	if !s.discard() {
		return
	}
	t.unshare(s)
	t.mu.Lock()
	if s.id.Number > t.numbers.Lowest() && t.unheard < unheardMax {
		s.unheard = true
		t.unheard++
	}
	owed := s.unheard
	t.mu.Unlock()
	if owed {
		t.owe(s, func(d *Debt) { d.close = true })
	} else {
		t.forget(s)
	}
}

// forget drops the last trace of a session that the group no longer has.
func (t *Table) forget(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.id.Number] == s {
		delete(t.sessions, s.id.Number)
		t.numbers.Finish(s.id.Number)
		if s.unheard {
			t.unheard--
		}
	}
}

// All returns the sessions in the order of their numbers.
func (t *Table) All() []*Session {
	t.mu.RLock()
	all := make([]*Session, 0, len(t.sessions))
	for _, s := range t.sessions {
		all = append(all, s)
	}
	t.mu.RUnlock()
	slices.SortFunc(all, byNumber)
	return all
}

// Get returns the session of a number, nil if there is none.
func (t *Table) Get(number uint64) *Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[number]
}

// Empty reports whether there is no session.
func (t *Table) Empty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.sessions) == 0
}

// Holders returns the holders of all grants, by session and request.
func (t *Table) Holders() (all []Holder) {
	for _, s := range t.All() {
		for _, g := range s.grants() {
			all = append(all, g.holder)
		}
	}
	return all
}

// Counts returns how many leases and waiting calls there are.
func (t *Table) Counts() (held, waiting int) {
	for _, s := range t.All() {
		h, w := s.Counts()
		held, waiting = held+h, waiting+w
	}
	return held, waiting
}
