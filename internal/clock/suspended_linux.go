package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is the time asleep since boot: CLOCK_BOOTTIME counts sleep, CLOCK_MONOTONIC does not.
// The two cannot be read at once, so the tightest of some readings counts.
func suspended() (time.Duration, bool) {
	const tries, tight = 8, 20 * time.Microsecond
	var slept time.Duration
	best := time.Duration(-1)
	for range tries {
		before, ok1 := read(unix.CLOCK_MONOTONIC)
		boot, ok2 := read(unix.CLOCK_BOOTTIME)
		after, ok3 := read(unix.CLOCK_MONOTONIC)
		if !ok1 || !ok2 || !ok3 {
			return 0, false
		}
		if width := after - before; best < 0 || width < best {
			best, slept = width, boot-before
		}
		if best <= tight {
			break
		}
	}
	return slept, true
}

func read(id int32) (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
