// Package retry decides how a command goes on after an attempt to bring it to the group, and how
// long its caller pauses. Its Backoff is the one of all that tries again. It is pure: internal/proposer
// runs it with goroutines, internal/model without. What must hold:
//
//	R1  once an attempt may have been carried out without an answer, that stays so until there is an answer
//	R2  the very same command is tried again, and only while it may still be carried out as it was meant
//	R3  pauses grow to a bound, those of a command from 5 ms to half a second; those of two callers differ
package retry

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	pauseFirst = 5 * time.Millisecond
	pauseMax   = 500 * time.Millisecond
)

// Result is what became of one attempt.
type Result uint8

// Results.
const (
	// NotSent: the command is not in the log and never will be from this attempt; or there was
	// no group to send it to.
	NotSent Result = iota
	// Answered: it was carried out, by this attempt or an earlier one, and has an outcome.
	Answered
	// Unknown: it may be in the log, and may be carried out later, or never.
	Unknown
	// Failed: the group answers no more, this time or any other.
	Failed
)

// Course is a command on its way. The zero Course has not been tried.
type Course struct {
	attempts int
	unknown  bool
}

// After takes the result of an attempt; code is that of the outcome, if there is one. It reports
// whether another attempt is to follow, after Pause.
func (c *Course) After(r Result, code fsm.Code) (again bool) {
	c.attempts++
	switch r {
	case NotSent:
		return true
	case Unknown:
		c.unknown = true
		return true
	case Answered:
		return code == fsm.CodeNotServing // the group still gathers its first voters
	}
	return false
}

// Unknown reports whether an attempt without an answer may have been carried out, or may still be.
func (c *Course) Unknown() bool { return c.unknown }

// Pause is how long to wait before the next attempt, unless the raft leader changes. chance is in
// [0, 1).
func (c *Course) Pause(chance float64) time.Duration { return Pause(c.attempts, chance) }

// Pause is how long to wait after so many attempts of a command. chance is in [0, 1).
func Pause(attempts int, chance float64) time.Duration {
	return Backoff{pauseFirst, pauseMax}.Pause(attempts, chance)
}

// Backoff is how long to wait between attempts: the pause after the first is First, and each later one
// twice as long, up to Max. First is at most a minute.
type Backoff struct{ First, Max time.Duration }

// Pause is the pause after so many attempts. Half of it is left to chance, in [0, 1]: 1 is all of it,
// where nobody else tries.
func (b Backoff) Pause(attempts int, chance float64) time.Duration {
	d := min(b.First<<min(max(attempts-1, 0), 24), b.Max)
	return d/2 + time.Duration(chance*float64(d/2))
}
