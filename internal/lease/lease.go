// Package lease is the arithmetic of a time-bounded right: how long a holder may rely on a session
// (Plan), when a replica may propose that a session has expired (Expiries), or that another period
// is over (Timers). It has no clock, goroutine or lock: time is an argument, and the caller
// serialises the calls.
//
// The two sides never compare clocks. The holder counts from before it sent the renewal, a replica
// from after it applied the renewal, and the holder stops earlier by the drift bound and a margin.
// So, in true time, the holder's validity ends before any replica's expiry as long as
//
//   - drift bounds the rates of any two nodes' clocks against each other: the faster one gains at
//     most drift/(1-drift) of the time that the slower one measures. Two clocks that are each off
//     by at most half of drift, in either direction, keep within it.
//   - a holder's clock counts the time in which its machine was suspended. It may run ahead or jump
//     ahead: that only ends its leases sooner.
//   - a replica's clock does not jump ahead. It may stand still: that only makes expiry later.
package lease

import (
	"math"
	"time"
)

// Instant is a point on a node's own clock, in nanoseconds: monotonic, and it also counts the time
// during which the machine was suspended. Instants of two nodes cannot be compared.
type Instant int64

// Never is after every instant of a clock.
const Never Instant = math.MaxInt64

// Bounds of Margin. A clock may overlook a suspension of MarginMin (see internal/clock).
const (
	MarginMin = 10 * time.Millisecond
	MarginMax = 50 * time.Millisecond
)

// Add returns i+d; a sum beyond the range of Instant stops at its end.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	switch {
	case d > 0 && sum < i:
		return Never
	case d < 0 && sum > i:
		return math.MinInt64
	}
	return sum
}

// Sub returns i-j; a difference beyond the range of time.Duration stops at its end.
func (i Instant) Sub(j Instant) time.Duration {
	diff := time.Duration(i - j)
	switch {
	case i > j && diff < 0:
		return math.MaxInt64
	case i < j && diff > 0:
		return math.MinInt64
	}
	return diff
}

// Margin shortens a holder's validity for the time between reading the clock and acting on it, and
// for suspensions that the clock overlooks: ttl/50, from MarginMin to MarginMax.
func Margin(ttl time.Duration) time.Duration {
	return min(max(ttl/50, MarginMin), MarginMax)
}

// ValidUntil returns the end of validity of a session of this ttl that the holder opened or renewed
// with a command sent at sent: sent + ttl*(1-drift) - Margin(ttl), and never before sent. A drift
// outside [0, 1) leaves no validity.
func ValidUntil(sent Instant, ttl time.Duration, drift float64) Instant {
	if ttl <= 0 || !(drift >= 0 && drift < 1) {
		return sent
	}
	lost := time.Duration(math.Ceil(float64(ttl) * drift))
	return sent.Add(max(0, ttl-lost-Margin(ttl)))
}
