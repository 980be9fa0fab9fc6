package serve

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleWorkers bounds the workers without a call, and idleStay how long one waits for the next.
	idleWorkers = 64
	idleStay    = time.Second
)

// workers are goroutines for calls. A worker takes one call after the other: the stack of a new goroutine
// grew three times for each, which was half of what a call cost here.
type workers struct {
	calls chan func() // to an idle worker
	idle  atomic.Int32
	all   sync.WaitGroup
}

func newWorkers() workers { return workers{calls: make(chan func())} }

// do runs a call on an idle worker, or on a new one.
func (w *workers) do(call func()) {
	select {
	case w.calls <- call:
	default:
		w.all.Go(func() { w.work(call) })
	}
}

func (w *workers) work(call func()) {
	stay := time.NewTimer(idleStay)
	defer stay.Stop()
	for {
		call()
		if w.idle.Add(1) > idleWorkers {
			w.idle.Add(-1)
			return
		}
		stay.Reset(idleStay)
		call = nil
		select {
		case call = <-w.calls:
		case <-stay.C:
		}
		if w.idle.Add(-1); call == nil {
			return
		}
	}
}

// end waits until no worker is left. No call comes any more.
func (w *workers) end() {
	close(w.calls)
	w.all.Wait()
}
