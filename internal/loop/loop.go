// Package loop takes a step again and again, on one goroutine: after the pause that the step before
// asked for, or as soon as somebody wakes it. The keeper, the autopilot and the timekeeper of a
// node are such loops.
//
// A Loop starts no goroutine. Its caller gives one to Run, once, and ends it with the context.
// Steps never run at the same time. What must hold:
//
//	W1  a wake is never lost: after it a step begins, also if it comes before Run or while a step runs
//	W2  several wakes before a step are one step
//	W3  between two steps that nobody woke lies PauseMin at least, whatever the first asked for
package loop

import (
	"context"
	"math"
	"time"
)

const (
	// UntilWoken is the pause of a step that has nothing to do before somebody wakes the loop.
	UntilWoken time.Duration = math.MaxInt64
	// PauseMin is the shortest pause between two steps, unless somebody wakes the second.
	PauseMin = time.Millisecond
)

// Loop is made by New. Its copies are the same loop.
type Loop struct {
	take   func(context.Context) (pause time.Duration)
	wakeup chan struct{} // capacity 1: whoever wakes it during a step has another follow
}

// New returns a loop that takes this step. What the step returns is how long to wait until the
// next.
func New(step func(context.Context) (pause time.Duration)) Loop {
	return Loop{take: step, wakeup: make(chan struct{}, 1)}
}

// Wake lets a step follow at once. It never blocks, and is safe for concurrent use.
func (l Loop) Wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// Run takes steps, the first at once, until ctx ends. A step has ctx too; Run waits for the one
// that is under way.
func (l Loop) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.wakeup:
		}
		timer.Reset(max(PauseMin, l.take(ctx)))
	}
}
