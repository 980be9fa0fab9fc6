package session

import (
	"github.com/holdfast-go/holdfast/internal/lease"
)

// never is until when a session may be relied on that is over, or not opened yet: there is no time
// at which it is valid.
const never lease.Instant = 0

// Until is until when a holder may rely on the session, without a lock; zero if it is over or not
// opened yet. Read it before the clock.
func (s *Session) Until() lease.Instant { return lease.Instant(s.until.Load()) }

// Lapse ends the validity for good, unless it was extended since the instant that was seen: a
// holder that has seen it end never sees it valid again (K1). It reports whether the validity is over.
func (s *Session) Lapse(seen lease.Instant) (over bool) {
	return s.until.CompareAndSwap(int64(seen), int64(never)) || s.Until() == never
}

// valid reports whether the session is known to live: it has a validity from its opening to its
// end.
func (s *Session) valid(now lease.Instant) bool { return now < s.Until() }

// begins sets the first validity, unless the group has ended the session already. The caller holds
// s.mu.
func (s *Session) begins(until lease.Instant) {
	if s.groupCause.Load() == nil {
		s.until.Store(int64(until))
	}
}

// extend moves the end of the validity. It returns false if the validity is over: it never comes
// back.
func (s *Session) extend(until lease.Instant) bool {
	for {
		old := s.until.Load()
		if lease.Instant(old) == never {
			return false
		}
		if int64(until) <= old || s.until.CompareAndSwap(old, int64(until)) {
			return true
		}
	}
}

// shorten moves the end of the validity back.
func (s *Session) shorten(until lease.Instant) {
	for {
		old := s.until.Load()
		if lease.Instant(old) == never || old <= int64(until) || s.until.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// endedByGroup records that the group has ended the session: it is valid no more, and Step will
// tell its holders.
func (s *Session) endedByGroup(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groupCause.CompareAndSwap(nil, &cause)
	s.until.Store(int64(never))
}
