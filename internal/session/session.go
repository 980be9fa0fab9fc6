package session

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// OpenMax bounds the calls of one session that are not finished: waiting, under way, or given up
// and not yet withdrawn.
const OpenMax = 1 << 17

// ClaimsMax bounds the leases and waiting calls of one session. The group ends a session by one
// command, and carries out no other meanwhile: some 5 µs for each lock on a busy core.
const ClaimsMax = 1 << 14

// Waiter is a call that waits in a queue. One of its methods is called, once, under the session's
// lock: it only records.
type Waiter interface {
	// Granted says that the lock is granted with this token.
	Granted(token uint64)
	// Over says that the session has ended, or that the request was withdrawn from under the call.
	Over(err error)
}

// claim is what a session has under one request number: a call that waits, then its grant.
type claim struct {
	waiter  Waiter // nil once there is a grant
	grant   *Grant
	revoked error  // the grant ended before the call had taken it
	wanted  bool   // another caller waited before this one had taken its grant
	asked   string // the operator's reason before that, "" if there was none
}

// Session is this node's side of a session of the group.
type Session struct {
	table  *Table
	id     fsm.SessionID
	manual bool
	ttl    atomic.Int64 // a time.Duration: what the group is known to have

	until      atomic.Int64          // a lease.Instant: until when a holder may rely on it; or never
	groupCause atomic.Pointer[error] // why the group ended it, before Step got to it

	mu       sync.Mutex // taken before that of the table, where both are
	requests lease.Numbers
	claims   map[uint64]*claim
	first    lease.Instant // before its first command was sent
	opened   bool
	over     error         // set once: why it ended
	closing  bool          // its end is owed to the group, or under way
	forsaken bool          // with its group
	pins     int           // leases that ended and may leave a rest, of which the group has not heard
	idle     lease.Instant // when it was last seen in use

	unheard bool // its end is owed though the group never opened it; under the table's lock

	telling sync.Mutex // held while holders are warned
	told    uint64     // the decision that they were warned of last
}

// ID is what the group knows it by.
func (s *Session) ID() fsm.SessionID { return s.id }

// TTL is after how long without a renewal the group ends it.
func (s *Session) TTL() time.Duration { return time.Duration(s.ttl.Load()) }

// Manual reports whether it is of one lease alone, whose holder renews it.
func (s *Session) Manual() bool { return s.manual }

// Begin takes a request number for a command that is sent after now and never waits, and returns
// with it the lowest one whose answer has not been heard. It fails when the session is over, or
// with ErrBusy. Finish ends what it began.
func (s *Session) Begin(now lease.Instant) (request, acked uint64, err error) {
	return s.begin(nil, now)
}

// begin is Begin; with a waiter its grant is waited for. The validity of the session counts from
// its first command.
func (s *Session) begin(w Waiter, now lease.Instant) (request, acked uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return 0, 0, s.over
	}
	if w != nil && len(s.claims) >= ClaimsMax {
		return 0, 0, errFull
	}
	if s.requests.Open() >= OpenMax {
		return 0, 0, ErrBusy
	}
	n := s.requests.Begin()
	if w != nil {
		s.claims[n] = &claim{waiter: w}
	}
	if s.first == 0 {
		s.first = now
	}
	s.idle = max(s.idle, now) // the end of the lease that it is for is answered by the session, too
	return n, s.requests.Lowest(), nil
}

// Finish records that the caller of a request has its answer, or has given up.
func (s *Session) Finish(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.Finish(request)
}

// Acked is the lowest request number whose answer has not been heard.
func (s *Session) Acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.Lowest()
}

// Ended is why the session is over, nil while it is not.
func (s *Session) Ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Unfinished is how many requests are neither answered nor withdrawn.
func (s *Session) Unfinished() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.Open()
}

// Counts returns how many leases and waiting calls the session has.
func (s *Session) Counts() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.grant != nil {
			held++
		} else {
			waiting++
		}
	}
	return held, waiting
}

// adopt gives a request its grant, whose answer is heard with it. It returns the reason if the
// grant is over already.
func (s *Session) adopt(g *Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.Finish(g.request)
	if s.over != nil {
		return s.over
	}
	c := s.claims[g.request]
	if c == nil {
		return ErrLost
	}
	if c.revoked != nil {
		delete(s.claims, g.request)
		return c.revoked
	}
	c.grant, c.waiter = g, nil
	if c.wanted {
		g.holder.Wanted("")
	}
	if c.asked != "" {
		g.holder.Wanted(c.asked)
	}
	return nil
}

// abandon forgets the claim of a call that got nothing. It reports whether the group has ended the
// request.
func (s *Session) abandon(request uint64) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[request]
	delete(s.claims, request)
	return c != nil && c.revoked != nil
}

// leavesGap reports whether the group is to hear of the end of a request that it does not remember.
// What is below all that is open it never asks for. A session that is not open has no runs yet, and
// what gave up in an outage before its opening is one gap at most for each call that waits.
func (s *Session) leavesGap(request uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened && s.over == nil && request > s.requests.Lowest()
}

// usedUp reports whether the session may have as many runs of finished requests as the group
// remembers of one. Where that has no room for other reasons, a further session would not help.
func (s *Session) usedUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.Last() >= s.requests.Lowest()+fsm.SpansMax
}

// drop forgets a grant that has ended.
func (s *Session) drop(g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[g.request]; c != nil && c.grant == g {
		delete(s.claims, g.request)
	}
}

// pin keeps the session in use until unpin: its end could overtake a release that leaves a rest.
func (s *Session) pin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins++
}

func (s *Session) unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins--
}

// granted wakes the call that waits for a request.
func (s *Session) granted(request, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[request]; c != nil && c.waiter != nil {
		c.waiter.Granted(token)
	}
}

// wanted tells the holder of a request that a caller waits for its lock or, with a reason, that an
// operator asks for it: now, or when the holder takes its grant.
func (s *Session) wanted(request uint64, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[request]
	switch {
	case c == nil:
	case c.grant != nil:
		c.grant.holder.Wanted(reason)
	case reason != "":
		c.asked = reason
	default:
		c.wanted = true
	}
}

// revoke records that the group has ended a request, and returns its grant if that is taken. A call
// that waits is woken, and one that has just been granted it gets no lease.
func (s *Session) revoke(request uint64, cause error) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[request]
	switch {
	case c == nil:
		return nil
	case c.grant != nil:
		return c.grant
	}
	c.revoked = cause
	if c.waiter != nil {
		c.waiter.Over(cause)
	}
	return nil
}

// end marks the session as over and returns its grants; the calls that wait are woken with err. It
// returns false if it was over already.
func (s *Session) end(err error) ([]*Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil, false
	}
	s.over = err
	s.until.Store(int64(never))
	grants := make([]*Grant, 0, len(s.claims))
	for _, n := range s.sorted() {
		switch c := s.claims[n]; {
		case c.grant != nil:
			grants = append(grants, c.grant)
		case c.waiter != nil:
			c.waiter.Over(err)
		}
	}
	s.claims = nil
	return grants, true
}

// discard ends a session that was never opened and has no calls. It returns false for any other.
func (s *Session) discard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened || s.over != nil || len(s.claims) > 0 || s.requests.Open() > 0 {
		return false
	}
	s.over = Lost(ErrReleased)
	return true
}

// grants returns those that are taken, in the order of their requests.
func (s *Session) grants() []*Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Grant
	for _, n := range s.sorted() {
		if g := s.claims[n].grant; g != nil {
			all = append(all, g)
		}
	}
	return all
}

// request is one that waits, with a nil grant, or has its grant.
type request struct {
	number uint64
	grant  *Grant
}

// open returns the requests that have a claim.
func (s *Session) open() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]request, 0, len(s.claims))
	for _, n := range s.sorted() {
		all = append(all, request{n, s.claims[n].grant})
	}
	return all
}

// sorted are the requests that have a claim. The caller holds s.mu.
func (s *Session) sorted() []uint64 {
	numbers := make([]uint64, 0, len(s.claims))
	for n := range s.claims {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// unused reports whether nothing has hung on the session for a TTL, as far as earlier calls have
// seen.
func (s *Session) unused(now lease.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) > 0 || s.requests.Open() > 0 || s.pins > 0 {
		s.idle = now
		return false
	}
	return now-s.idle > lease.Instant(s.ttl.Load())
}

func byNumber(a, b *Session) int { return cmp.Compare(a.id.Number, b.id.Number) }
