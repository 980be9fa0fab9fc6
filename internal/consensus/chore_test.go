package consensus

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAChoreIsDoneAfterEachCallAndNeverTwiceAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var goroutines, at atomic.Int32
		var done, asked atomic.Int64 // the number of the last call that a run has seen, and of the last call
		c := &chore{
			start: func(f func()) bool {
				goroutines.Add(1)
				go func() { defer goroutines.Add(-1); f() }()
				return true
			},
			do: func() {
				if at.Add(1) > 1 {
					t.Error("two runs at once")
				}
				seen := asked.Load()
				time.Sleep(time.Millisecond)
				done.Store(seen)
				at.Add(-1)
			},
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					asked.Add(1)
					c.Call()
					time.Sleep(700 * time.Microsecond)
				}
			})
		}
		all.Wait()
		time.Sleep(10 * time.Millisecond)
		if synctest.Wait(); done.Load() != asked.Load() || goroutines.Load() != 0 {
			t.Errorf("%d of %d calls were seen, %d goroutines are left", done.Load(), asked.Load(), goroutines.Load())
		}
	})
}

func TestAChoreOfAReplicaThatHasEndedIsNotDone(t *testing.T) {
	t.Parallel()
	ended := true
	c := &chore{start: func(f func()) bool {
		if !ended {
			f()
		}
		return !ended
	}}
	runs := 0
	c.do = func() { runs++ }
	if c.Call(); runs != 0 {
		t.Error("it was done")
	}
	ended = false
	if c.Call(); runs != 1 {
		t.Errorf("after a refused start it was done %d times", runs)
	}
}
