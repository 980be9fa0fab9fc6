package holdfast

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// openMax bounds the calls of one session that are not finished: waiting, under way, or given up
// and not yet withdrawn.
const openMax = 1 << 17

// claimsMax bounds the leases and waiting calls of one session. The group ends a session by one command, and
// carries out no other meanwhile: some 5 µs for each lock on a busy core.
const claimsMax = 1 << 14

// errFull: the session has claimsMax, and the call belongs on another one.
var errFull = errors.New("holdfast: session is full")

// wakeup ends the waiting of a queued call.
type wakeup struct {
	token uint64
	err   error // set: the session is over, or the request was withdrawn from under the call
}

// claim is what a session has under one request number: a call that waits, then its lease.
type claim struct {
	wake    chan wakeup // capacity 1; nil for requests that never wait
	lease   *Lease
	revoked error // the grant ended before the call had made its lease
	wanted  bool  // somebody waited before the call had made its lease
}

// session is this node's side of a session of the group: the leases and waiting calls that live and
// end together.
type session struct {
	id     fsm.SessionID
	ttl    time.Duration
	manual bool

	horizon atomic.Int64          // a lease.Instant: until when the holder may rely on it
	verdict atomic.Pointer[error] // why the group ended it, before the keeper got to it

	mu       sync.Mutex // taken before that of the keeper, where both are
	requests lease.Numbers
	claims   map[uint64]*claim
	first    lease.Instant // before its first command was sent
	opened   bool
	over     error         // set once: why it ended
	leaving  int           // leases that ended and may leave a rest, of which the group has not heard
	idle     lease.Instant // when it was last seen in use
}

// never is the horizon of a session that is over, or not opened yet: there is no time at which it is valid.
const never lease.Instant = 0

func (s *session) until() lease.Instant { return lease.Instant(s.horizon.Load()) }

// begin takes a request number, for a command that is sent after now, and answers with it the lowest whose answer
// has not been heard; with a wake channel its grant is waited for. The validity of the session counts from its
// first command. begin fails when the session is over or full, or too much of it is unfinished.
func (s *session) begin(wake chan wakeup, now lease.Instant) (request, acked uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return 0, 0, s.over
	}
	if wake != nil && len(s.claims) >= claimsMax {
		return 0, 0, errFull
	}
	if s.requests.Open() >= openMax {
		return 0, 0, &ExhaustedError{What: "unfinished calls of this node", Limit: openMax}
	}
	n := s.requests.Begin()
	if wake != nil {
		s.claims[n] = &claim{wake: wake}
	}
	if s.first == 0 {
		s.first, s.idle = now, now
	}
	return n, s.requests.Lowest(), nil
}

// finish says that the answer of a request has been heard, or that nobody asks for it any more.
func (s *session) finish(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.Finish(request)
}

// acked is the lowest request number whose answer has not been heard.
func (s *session) acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.Lowest()
}

// adopt makes l the holder of its request, whose answer is heard with it. It answers the reason if the grant is
// over already.
func (s *session) adopt(l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.Finish(l.request)
	if s.over != nil {
		return s.over
	}
	c := s.claims[l.request]
	if c == nil {
		return ErrLost
	}
	if c.revoked != nil {
		delete(s.claims, l.request)
		return c.revoked
	}
	c.lease, c.wake = l, nil
	if c.wanted {
		l.want()
	}
	return nil
}

// wanted tells the holder of request that somebody waits, now or when its lease is made.
func (s *session) wanted(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[request]
	switch {
	case c == nil:
	case c.lease != nil:
		c.lease.want()
	default:
		c.wanted = true
	}
}

// abandon forgets the claim of a call that got nothing.
func (s *session) abandon(request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, request)
}

// hold keeps the session in use until let: its end could overtake a release that leaves a rest.
func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving++
}

// let ends what hold began.
func (s *session) let() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving--
}

// drop forgets an ended lease.
func (s *session) drop(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[l.request]; c != nil && c.lease == l {
		delete(s.claims, l.request)
	}
}

// granted wakes the call that waits for request.
func (s *session) granted(request, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[request]; c != nil && c.wake != nil {
		select {
		case c.wake <- wakeup{token: token}:
		default:
		}
	}
}

// revoked records that the group ended request, and returns its lease if there is one. A call that waits is woken,
// and one that has just been granted it gets no lease.
func (s *session) revoked(request uint64, cause error) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[request]
	switch {
	case c == nil:
		return nil
	case c.lease != nil:
		return c.lease
	}
	c.revoked = cause
	if c.wake != nil {
		select {
		case c.wake <- wakeup{err: cause}:
		default:
		}
	}
	return nil
}

// end marks the session as over and returns its leases; the calls that wait are woken with err.
// It answers false if it was over already.
func (s *session) end(err error) ([]*Lease, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil, false
	}
	s.over = err
	s.horizon.Store(int64(never))
	leases := make([]*Lease, 0, len(s.claims))
	for _, c := range s.claims {
		switch {
		case c.lease != nil:
			leases = append(leases, c.lease)
		case c.wake != nil:
			select {
			case c.wake <- wakeup{err: err}:
			default:
			}
		}
	}
	s.claims = nil
	return leases, true
}

// discard ends a session that was never opened and has no calls. It answers false for any other.
func (s *session) discard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened || s.over != nil || len(s.claims) > 0 || s.requests.Open() > 0 {
		return false
	}
	s.over = lost(ErrReleased)
	return true
}

// leases returns the live leases.
func (s *session) leases() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Lease
	for _, c := range s.claims {
		if c.lease != nil {
			all = append(all, c.lease)
		}
	}
	return all
}

// counts returns how many leases and waiting calls the session has.
func (s *session) counts() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.lease != nil {
			held++
		} else {
			waiting++
		}
	}
	return held, waiting
}

// ended is why the session is over, nil while it is not.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// unused reports whether nothing has hung on the session for a TTL, as far as earlier calls have seen.
func (s *session) unused(now lease.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claims) > 0 || s.requests.Open() > 0 || s.leaving > 0 {
		s.idle = now
		return false
	}
	return now-s.idle > lease.Instant(s.ttl)
}

// setHorizon sets the first one, unless the group has ended the session already. The caller holds mu.
func (s *session) setHorizon(horizon lease.Instant) {
	if s.verdict.Load() == nil {
		s.horizon.Store(int64(horizon))
	}
}

// extend moves the horizon. It answers false if the session's validity is over: it never comes back.
func (s *session) extend(horizon lease.Instant) bool {
	for {
		old := s.horizon.Load()
		if lease.Instant(old) == never {
			return false
		}
		if int64(horizon) <= old || s.horizon.CompareAndSwap(old, int64(horizon)) {
			return true
		}
	}
}

// lapse ends the validity for good, unless it was extended since the horizon that was seen.
func (s *session) lapse(seen lease.Instant) { s.horizon.CompareAndSwap(int64(seen), int64(never)) }

// judge records that the group has ended the session: it is valid no more, and the keeper will tell its leases.
func (s *session) judge(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict.CompareAndSwap(nil, &cause)
	s.horizon.Store(int64(never))
}

// open returns the requests that wait, with nil, or have a lease.
func (s *session) open() map[uint64]*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[uint64]*Lease, len(s.claims))
	for request, c := range s.claims {
		all[request] = c.lease
	}
	return all
}
