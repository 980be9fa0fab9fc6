package tally

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAnyEndIsTheEndOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiting()
		want := func(what string, waits, since time.Duration) {
			t.Helper()
			if a, b := w.For(), w.SinceEnd(); a != waits || b != since {
				t.Errorf("%s: it has waited for %v, and %v since the last end; want %v and %v", what, a, b, waits, since)
			}
		}
		time.Sleep(time.Second) // virtual, as all of them
		want("nothing is waited for", 0, time.Second)
		w.Begin()
		time.Sleep(2 * time.Second)
		want("a call waits", 2*time.Second, 3*time.Second)
		w.Begin()
		time.Sleep(2 * time.Second)
		want("another one makes it no younger", 4*time.Second, 5*time.Second)
		w.End()
		want("one of two is answered", 0, 0)
		time.Sleep(3 * time.Second)
		want("and nothing is asked since", 0, 3*time.Second)
		w.Begin()
		time.Sleep(time.Second)
		want("the next call counts from its own begin", time.Second, 4*time.Second)
		w.End()
		w.End()
		want("two ends are one", 0, 0)
	})
}

// What has just begun is waited for: no time would be nothing.
func TestAWaitThatHasJustBegunIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiting()
		w.Begin()
		if w.For() <= 0 {
			t.Error("it waits for nothing")
		}
		time.Sleep(time.Second)
		if d := w.For(); d < time.Second-time.Microsecond || d > time.Second {
			t.Errorf("it has waited for %v", d)
		}
	})
}
