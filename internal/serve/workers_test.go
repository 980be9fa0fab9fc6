package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

// A call on a goroutine of its own costs more than the call; one that nobody ends would be a leak.
func TestAWorkerTakesOneCallAfterTheOtherAndEndsWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorkers(), 0
		for range 100 {
			w.do(func() { done++ })
			synctest.Wait()
			if n := w.idle.Load(); n != 1 {
				t.Fatalf("%d workers after %d calls", n, done)
			}
			time.Sleep(idleStay / 2)
		}
		time.Sleep(idleStay)
		synctest.Wait()
		if n := w.idle.Load(); n != 0 || done != 100 {
			t.Errorf("%d workers are idle, %d calls are done", n, done)
		}
		w.end()
	})
}

func TestFewOfManyWorkersStayIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, gate := newWorkers(), make(chan struct{})
		for range 10 * idleWorkers {
			w.do(func() { <-gate })
		}
		close(gate)
		synctest.Wait()
		if n := w.idle.Load(); n != idleWorkers {
			t.Errorf("%d workers are idle", n)
		}
		w.end() // at once: synctest fails for a goroutine that is left
	})
}
