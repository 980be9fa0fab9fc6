package porcupine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// never is the Return of an operation whose answer nobody heard: it may happen at any later time.
// Last in a history, where nothing follows it, is as good as never.
const never = math.MaxInt

// Verdict is the result for one lock.
type Verdict struct {
	Lock      string
	Ops       int
	OK        bool
	Undecided bool // the time was over first: the history counts as bad
}

// String is the verdict in one line.
func (v Verdict) String() string {
	what := "is linearizable"
	switch {
	case v.Undecided:
		what = "could not be decided in time"
	case !v.OK:
		what = "has no order in which its answers make sense"
	}
	return fmt.Sprintf("lock %q: a history of %d operations %s", v.Lock, v.Ops, what)
}

// Check looks at every lock of a history, for at most patience each. It answers all verdicts, and
// an error that names the first bad one: a lock that misbehaved, or could not be decided; or a
// history with fewer than least operations in all, which proves nothing.
func Check(h []history.Event, patience time.Duration, least int) ([]Verdict, error) {
	var verdicts []Verdict
	var first error
	total := 0
	for lock, ops := range operations(h) {
		v := Verdict{Lock: lock, Ops: len(ops)}
		total += len(ops)
		switch porcupine.CheckOperationsTimeout(model(), ops, patience) {
		case porcupine.Ok:
			v.OK = true
		case porcupine.Unknown:
			v.Undecided = true
		}
		verdicts = append(verdicts, v)
		if !v.OK && first == nil {
			first = fmt.Errorf("holdfast: %v", v)
		}
	}
	if first == nil && total < least {
		first = fmt.Errorf("holdfast: %d operations, at least %d wanted: a vacuous history", total, least)
	}
	return verdicts, first
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := state.(lockState).step(input)
			return ok, next
		},
		Equal: func(a, b any) bool {
			x, y := a.(lockState), b.(lockState)
			return x.highest == y.highest && slices.Equal(x.holders, y.holders)
		},
	}
}
