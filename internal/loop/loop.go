// Package loop repeats a step on one goroutine: after the pause that the last step returned, or at
// a wake. The keeper, the autopilot and the timekeeper of a node are such loops.
//
// A Loop starts no goroutine. Its caller runs Run on one, once, and ends it with the context. Steps
// never run at the same time. Invariants:
//
//	W1  a step begins after each wake, also after one before Run or during a step
//	W2  several wakes before a step cause one step
//	W3  without a wake at least PauseMin lies between two steps
package loop

import (
	"context"
	"math"
	"time"
)

const (
	// UntilWoken is the pause of a step without work before the next wake.
	UntilWoken time.Duration = math.MaxInt64
	// PauseMin is the shortest pause between two steps without a wake.
	PauseMin = time.Millisecond
)

// Loop is made by New. Its copies are the same loop.
type Loop struct {
	step   func(context.Context) (pause time.Duration)
	wakeup chan struct{} // capacity 1: a wake during a step causes another
}

// New returns a loop of this step, which returns the pause until the next one.
func New(step func(context.Context) (pause time.Duration)) Loop {
	return Loop{step: step, wakeup: make(chan struct{}, 1)}
}

// Wake causes a step at once. It never blocks, and is safe for concurrent use.
func (l Loop) Wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// Run runs steps, the first at once, until ctx ends. A step has ctx too, and Run waits for it.
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
		timer.Reset(max(PauseMin, l.step(ctx)))
	}
}

// Sleep returns after d, or with the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
