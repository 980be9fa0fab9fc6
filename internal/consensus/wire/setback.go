package wire

import (
	"strconv"
	"strings"
	"time"
)

// After a failed connection the engine leaves an address alone for a second at most, by the wall clock: it
// keeps the time of the failure, and sends no message and no snapshot before that is past. Where the wall clock
// is set back meanwhile, by an hour as a machine starts, the node would ask nobody for a vote for that hour. The
// engine takes any text for an address, and knows such a failure by it. So after each step back every address
// has another text for the engine (Registry.Resolve), and the carrier cuts off what makes it another.

const (
	setBackMark  = "#clock-set-back-"     // no address has it
	setBackLeast = 100 * time.Millisecond // a smaller step delays no message for long
	setBacksMax  = 256                    // texts of an address: the engine forgets none
)

// setBacks counts how often the wall clock was set back.
type setBacks struct {
	progress func() (awake, wall time.Duration) // of the monotonic and the wall clock, by one reading
	parted   time.Duration                      // how far the wall clock was ahead at most, since it was set back last
	count    int
}

func newSetBacks() setBacks {
	base := time.Now()
	return setBacks{progress: func() (awake, wall time.Duration) {
		now := time.Now()
		return now.Sub(base), time.Duration(now.UnixNano() - base.UnixNano())
	}}
}

// mark is what makes an address another one now.
func (s *setBacks) mark() string {
	awake, wall := s.progress()
	if parted := wall - awake; parted > s.parted {
		s.parted = parted
	} else if s.parted-parted >= setBackLeast {
		s.parted = parted
		s.count++
	}
	if s.count == 0 {
		return ""
	}
	return setBackMark + strconv.Itoa(s.count%setBacksMax)
}

// unmarked is an address as it is.
func unmarked(addr string) string {
	addr, _, _ = strings.Cut(addr, setBackMark)
	return addr
}
