// Package clock reads a node's clock: one that never goes back, that no step of the wall clock
// moves, and that also counts the time during which the machine was suspended.
//
// Go's monotonic clock stops while a machine sleeps, but leases do not: a holder that slept past
// the end of its lease would still rely on it. System therefore compares each reading with the wall
// clock, and asks the operating system for the time asleep when the two part.
package clock

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Clock tells a node's time. Its instants compare with those of the same Clock alone.
type Clock interface {
	// Now is safe for concurrent use and never returns less than it did before.
	Now() lease.Instant
	// Progress is Now without what was only concluded from a wall clock that moved: a step of one
	// node's wall clock must not look like lost time to the others.
	Progress() lease.Instant
	// Wall is the node's wall clock. It may be wrong, and it may jump.
	Wall() time.Time
}

// parting is the difference of wall and monotonic progress that is examined. Every suspension that
// matters to a lease is longer.
const parting = 10 * time.Millisecond

// start is the first reading of a clock: no reading is the zero instant.
const start = lease.Instant(time.Second)

// System returns a clock of this machine. A reading takes some tens of nanoseconds, no lock and no
// allocation. A clock made inside a testing/synctest bubble follows the bubble's time.
func System() Clock {
	base := time.Now()
	return newSystem(func() (awake, wall time.Duration) {
		now := time.Now()
		return now.Sub(base), time.Duration(now.UnixNano() - base.UnixNano())
	}, suspended)
}

type system struct {
	progress  func() (awake, wall time.Duration)    // of both clocks by one reading, from zero
	suspended func() (total time.Duration, ok bool) // time asleep since boot; false: unknown here
	asleep    time.Duration                         // suspended when the clock was made
	settled   atomic.Pointer[settled]
}

// settled is the last examination of the difference of the clocks. Immutable.
type settled struct {
	parted  time.Duration // wall progress minus monotonic progress at the time
	slept   time.Duration // time asleep since the clock was made; never falls
	stepped time.Duration // what else counts as sleep because the system does not say; never falls
}

func newSystem(progress func() (awake, wall time.Duration), suspended func() (time.Duration, bool)) *system {
	s := &system{progress: progress, suspended: suspended}
	s.asleep, _ = suspended()
	s.settled.Store(&settled{})
	return s
}

func (s *system) Now() lease.Instant {
	awake, known := s.read()
	return start + lease.Instant(awake+known.slept+known.stepped)
}

// Progress reads the clock without steps of the wall clock.
func (s *system) Progress() lease.Instant {
	awake, known := s.read()
	return start + lease.Instant(awake+known.slept)
}

func (s *system) read() (awake time.Duration, _ *settled) {
	known := s.settled.Load() // before the time: settled is never newer than the reading
	awake, wall := s.progress()
	if d := wall - awake - known.parted; d > parting || d < -parting {
		known = s.settle(known, wall-awake)
	}
	return awake, known
}

// Wall reads the wall clock.
func (s *system) Wall() time.Time { return time.Now() }

// settle finds whether the machine slept or the wall clock was set. If the operating system does
// not say, a jump forward counts as sleep: a holder that gives up too early does no harm.
func (s *system) settle(known *settled, parted time.Duration) *settled {
	next := &settled{parted: parted, slept: known.slept, stepped: known.stepped}
	if total, ok := s.suspended(); ok {
		next.slept = max(next.slept, total-s.asleep)
	} else {
		next.stepped += max(0, parted-known.parted)
	}
	if !s.settled.CompareAndSwap(known, next) {
		return s.settled.Load() // another reading was first, and has counted this sleep
	}
	return next
}
