package tally

import (
	"sync/atomic"
	"time"
)

// Waiting is since when something has been waited for, by this process's monotonic clock. It is made
// by NewWaiting, and safe for concurrent use.
type Waiting struct {
	made         time.Time
	began, ended atomic.Int64 // after made; 0: never, or not now
}

// NewWaiting returns one that waits for nothing.
func NewWaiting() *Waiting { return &Waiting{made: time.Now()} }

// Begin notes that something is waited for, unless that is so already.
func (w *Waiting) Begin() {
	if w.began.Load() == 0 {
		w.began.CompareAndSwap(0, w.now())
	}
}

// End notes that it has come, and that nothing else is waited for.
func (w *Waiting) End() {
	w.began.Store(0)
	w.ended.Store(w.now())
}

// For is for how long something has been waited for, 0 if nothing is.
func (w *Waiting) For() time.Duration {
	if began := w.began.Load(); began != 0 {
		return max(1, time.Duration(w.now()-began))
	}
	return 0
}

// SinceEnd is the time since the last End, or since NewWaiting.
func (w *Waiting) SinceEnd() time.Duration { return time.Duration(w.now() - w.ended.Load()) }

func (w *Waiting) now() int64 { return max(1, int64(time.Since(w.made))) }
