package metrics

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Wait is how long requests for a lock took, by outcome.
func Wait() Metric {
	return Metric{Name: "wait", Kind: Histogram, Unit: Seconds, Labels: []string{"outcome"},
		Help: "How long requests for a lock took, from the call to the lease (granted) or the refusal (refused)."}
}

// Hold is how long leases were held, by their end.
func Hold() Metric {
	return Metric{Name: "hold", Kind: Histogram, Unit: Seconds, Labels: []string{"end"},
		Help: "How long leases were held, from the grant until they were given back (released) or ended otherwise (lost)."}
}

// Jeopardies is how often leases were in trouble.
func Jeopardies() Metric {
	return Metric{Name: "lease_jeopardies", Kind: Counter, Help: "How often the renewal of a lease was in trouble."}
}

// Quorum is whether this node hears a raft leader, as Events.Quorum tells.
func Quorum() Metric {
	return Metric{Name: "quorum", Help: "0 while this node hears no raft leader, as Events.Quorum tells, else 1."}
}

// LockLabel is the label of Wait and Hold that names a lock, where that is asked for.
const LockLabel = "lock"

// WaitBounds are the upper ends of the buckets of Wait, in seconds.
func WaitBounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

// HoldBounds are the upper ends of the buckets of Hold, in seconds: from a request to a leader's
// tenure of a day.
func HoldBounds() []float64 {
	return []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86400}
}

// Recorder takes what Events tell.
type Recorder interface {
	Wait(lock, outcome string, d time.Duration)
	Hold(lock, end string, d time.Duration)
	Jeopardy()
	Quorum(ok bool)
}

// Events are hooks that call r and then those of own, which may be the zero value. Hooks that r
// does not need are those of own.
func Events(own holdfast.Events, r Recorder) holdfast.Events {
	all := own
	all.Granted = func(name string, token holdfast.Token, waited time.Duration) {
		r.Wait(name, "granted", waited)
		if own.Granted != nil {
			own.Granted(name, token, waited)
		}
	}
	all.Refused = func(name string, err error, waited time.Duration) {
		r.Wait(name, "refused", waited)
		if own.Refused != nil {
			own.Refused(name, err, waited)
		}
	}
	all.Ended = func(name string, token holdfast.Token, held time.Duration, cause error) {
		end := "released"
		if errors.Is(cause, holdfast.ErrLost) {
			end = "lost"
		}
		r.Hold(name, end, held)
		if own.Ended != nil {
			own.Ended(name, token, held, cause)
		}
	}
	all.Jeopardy = func(name string, j holdfast.Jeopardy) {
		if !j.Safe {
			r.Jeopardy()
		}
		if own.Jeopardy != nil {
			own.Jeopardy(name, j)
		}
	}
	all.Quorum = func(ok bool, missing []string) {
		r.Quorum(ok)
		if own.Quorum != nil {
			own.Quorum(ok, missing)
		}
	}
	return all
}
