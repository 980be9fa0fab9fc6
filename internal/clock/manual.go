package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Manual is a clock that only Advance moves. Use NewManual.
type Manual struct{ now atomic.Int64 }

// NewManual returns a clock that reads one second.
func NewManual() *Manual {
	m := &Manual{}
	m.now.Store(int64(start))
	return m
}

// Now returns the present instant of the clock.
func (m *Manual) Now() lease.Instant { return lease.Instant(m.now.Load()) }

// Progress returns Now.
func (m *Manual) Progress() lease.Instant { return m.Now() }

// Wall returns Now, as if the node had started in 1970.
func (m *Manual) Wall() time.Time { return time.Unix(0, int64(m.Now())) }

// Advance moves the clock forward by d; a negative d moves nothing.
func (m *Manual) Advance(d time.Duration) { m.now.Add(int64(max(0, d))) }

// Skew is a clock with faults, for simulation: it has its own rate, stands still, or jumps like
// that of a suspended machine. It never goes back. Its wall clock may be wrong. Use Skewed.
type Skew struct {
	base Clock

	mu     sync.Mutex
	rate   float64
	from   lease.Instant // base at the last change
	value  lease.Instant // own reading at the last change
	frozen bool
	still  lease.Instant // the reading while frozen
	dozed  lease.Instant // asleep while frozen
	asleep lease.Instant // what Suspend has added
	ahead  time.Duration // of the wall clock
	froze  time.Time     // when Freeze began, by base's wall clock
}

// Skewed returns a clock that starts at base's reading and runs rate times as fast. A rate below
// zero counts as zero.
func Skewed(base Clock, rate float64) *Skew {
	now := base.Now()
	return &Skew{base: base, rate: max(0, rate), from: now, value: now}
}

// Now reads the clock.
func (s *Skew) Now() lease.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		return s.still
	}
	return s.running()
}

// Rate sets the rate from now on.
func (s *Skew) Rate(rate float64) {
	s.change(func() { s.rate = max(0, rate) })
}

// Suspend makes the clock jump forward by d, like a sleep of the machine; a negative d does
// nothing.
func (s *Skew) Suspend(d time.Duration) {
	s.change(func() {
		s.value += lease.Instant(max(0, d))
		s.asleep += lease.Instant(max(0, d))
	})
}

// Progress reads the clock without what Suspend has added: for others that time has not gone by.
func (s *Skew) Progress() lease.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		return s.still - s.dozed
	}
	return s.running() - s.asleep
}

// Freeze makes the clock stand still for its readers, as in a stopped process. A second Freeze
// changes nothing.
func (s *Skew) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		s.frozen, s.still, s.dozed, s.froze = true, s.running(), s.asleep, s.base.Wall()
	}
}

// Thaw ends Freeze: the clock shows the time that passed meanwhile.
func (s *Skew) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
}

// ThawLate ends Freeze as a hypervisor does that had stopped all clocks of a machine: neither the
// clock nor the wall clock shows the time that passed.
func (s *Skew) ThawLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		return
	}
	s.frozen, s.asleep = false, s.dozed
	s.value, s.from = s.still, s.base.Now()
	s.ahead -= s.base.Wall().Sub(s.froze)
}

// Wall reads the wall clock.
func (s *Skew) Wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base.Wall().Add(s.ahead)
}

// SetWall sets the wall clock ahead or, below zero, behind. Now does not follow it.
func (s *Skew) SetWall(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// change anchors the clock anew: time before the change keeps its old rate.
func (s *Skew) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base.Now()
	s.value += lease.Instant(float64(now-s.from) * s.rate)
	s.from = now
	edit()
}

func (s *Skew) running() lease.Instant {
	return s.value + lease.Instant(float64(s.base.Now()-s.from)*s.rate)
}
