// Package clock reads a node's clock: one that never goes back, that no step of the wall clock
// moves, and that also counts the time for which the machine was suspended.
//
// Go's own monotonic clock stops while a machine sleeps, and a lease does not: a holder that slept
// past the end of its lease would believe in it still. System therefore watches the wall clock of
// the same reading, and asks the operating system how long it slept when the two part.
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
	// Wall is the node's wall clock. It may be wrong, and it may jump.
	Wall() time.Time
}

// parting is how far wall and monotonic progress may differ before the reason is looked for. Any
// suspension that matters to a lease is longer.
const parting = 10 * time.Millisecond

// start is what a new clock reads, so that no reading is the zero instant.
const start = lease.Instant(time.Second)

// System returns a clock of this machine. A reading takes some tens of nanoseconds, no lock and no
// allocation. Inside a testing/synctest bubble it follows the bubble's time; make it there.
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

// settled is what was last found out about the difference of the clocks; it never changes.
type settled struct {
	parted time.Duration // wall progress minus monotonic progress, when last looked at
	slept  time.Duration // suspension since the clock was made; never falls
}

func newSystem(progress func() (awake, wall time.Duration), suspended func() (time.Duration, bool)) *system {
	s := &system{progress: progress, suspended: suspended}
	s.asleep, _ = suspended()
	s.settled.Store(&settled{})
	return s
}

func (s *system) Now() lease.Instant {
	known := s.settled.Load() // before the time: what is known is never newer than the reading
	awake, wall := s.progress()
	if d := wall - awake - known.parted; d > parting || d < -parting {
		known = s.settle(known, wall-awake)
	}
	return start + lease.Instant(awake+known.slept)
}

// Wall reads the wall clock.
func (s *system) Wall() time.Time { return time.Now() }

// settle finds out whether the clocks parted because the machine slept or because somebody set the
// wall clock. Where the operating system does not say, a jump forward counts as sleep: a holder
// that gives up too early does no harm.
func (s *system) settle(known *settled, parted time.Duration) *settled {
	next := &settled{parted: parted, slept: known.slept}
	if total, ok := s.suspended(); ok {
		next.slept = max(next.slept, total-s.asleep)
	} else {
		next.slept += max(0, parted-known.parted)
	}
	if !s.settled.CompareAndSwap(known, next) {
		return s.settled.Load() // another reading was first: counting the same sleep twice would be wrong
	}
	return next
}
