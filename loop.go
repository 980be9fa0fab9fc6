package holdfast

import (
	"context"
	"math"
	"time"
)

const (
	// untilWoken is the pause of a step that has nothing to do before somebody wakes it.
	untilWoken time.Duration = math.MaxInt64
	// stepPause is the shortest pause between two steps, unless somebody wakes the second.
	stepPause = time.Millisecond
)

// loop takes a step again and again, on the goroutine of run: after the pause that the step before asked for, or as
// soon as somebody wakes it.
type loop struct {
	take   func(context.Context) (pause time.Duration)
	wakeup chan struct{} // capacity 1: whoever wakes it during a step has another follow
}

func newLoop(step func(context.Context) time.Duration) loop {
	return loop{take: step, wakeup: make(chan struct{}, 1)}
}

func (l loop) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// run takes steps, the first at once, until ctx ends.
func (l loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.wakeup:
		}
		timer.Reset(max(stepPause, l.take(ctx)))
	}
}
