package model

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// clock is a node's clock: it began somewhere and runs at a rate that can change. It goes on while
// the node is paused, as the product's clock also counts the time in which its machine was
// suspended.
type clock struct {
	since time.Duration // true time of the last change
	shows lease.Instant // then
	rate  float64
}

func (c *clock) at(now time.Duration) lease.Instant {
	return c.shows + lease.Instant(float64(now-c.since)*c.rate)
}

// change sets the rate and moves the clock by a jump.
func (c *clock) change(now time.Duration, rate float64, jump time.Duration) {
	c.shows = c.at(now) + lease.Instant(jump)
	c.since, c.rate = now, rate
}

// until is how much true time passes until the clock shows i.
func (c *clock) until(now time.Duration, i lease.Instant) time.Duration {
	left := float64(i-c.at(now)) / c.rate
	if left > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return max(0, time.Duration(math.Ceil(left))+1)
}
