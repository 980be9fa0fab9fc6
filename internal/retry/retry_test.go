package retry

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A caller that is told that nothing happened tries with a new command. If an attempt of the first
// is carried out then, it has the lock twice, and knows of one.
func TestWhatMayHaveBeenCarriedOutStaysUnknownUntilThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		results []Result
		code    fsm.Code
		again   bool
		unknown bool
	}{
		{nil, 0, true, false},
		{[]Result{NotSent, NotSent}, 0, true, false},
		{[]Result{Unknown}, 0, true, true},
		{[]Result{Unknown, NotSent, NotSent}, 0, true, true},
		{[]Result{Unknown, Answered}, fsm.CodeNotServing, true, true},
		{[]Result{Unknown, Answered}, fsm.CodeOK, false, true},
		{[]Result{NotSent, Answered}, fsm.CodeHeld, false, false},
		{[]Result{NotSent, Failed}, 0, false, false},
		{[]Result{Unknown, Failed}, 0, false, true},
	} {
		var course Course
		again := true
		for _, r := range c.results {
			if !again {
				t.Fatalf("%v: no attempt was to follow", c.results)
			}
			again = course.After(r, c.code)
		}
		if again != c.again || course.Unknown() != c.unknown {
			t.Errorf("after %v, %v: again %v, unknown %v", c.results, c.code, again, course.Unknown())
		}
	}
}

// Thousands of callers that lost their raft leader would otherwise all come back at once, again and
// again.
func TestPausesGrowToABoundAndDifferByChance(t *testing.T) {
	t.Parallel()
	for attempts, longest := range []time.Duration{5, 5, 10, 20, 40, 80, 160, 320, 500, 500} {
		longest *= time.Millisecond
		if short, long := Pause(attempts, 0), Pause(attempts, 0.999); short != longest/2 || long <= short || long >= longest {
			t.Errorf("after %d attempts a pause is %v to %v, %v at most wanted", attempts, short, long, longest)
		}
	}
	for _, b := range []Backoff{{pauseFirst, pauseMax}, {time.Minute, time.Hour}, {time.Second, time.Millisecond}} {
		if d := b.Pause(1_000_000, 0); d != b.Max/2 {
			t.Errorf("after a million attempts a pause of %v is %v at least", b, d)
		}
	}
}
