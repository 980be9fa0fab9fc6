package history

import (
	"slices"
	"sync"
	"time"
)

// Recorder collects events in the order in which they happened. It is safe for concurrent use.
type Recorder struct {
	now func() time.Duration

	mu     sync.Mutex
	ops    uint64
	events []Event
}

// NewRecorder returns an empty recorder that goes by now, the true time.
func NewRecorder(now func() time.Duration) *Recorder { return &Recorder{now: now} }

// Op returns a new number for a call.
func (r *Recorder) Op() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return r.ops
}

// Add records e at this moment.
func (r *Recorder) Add(e Event) {
	r.Observe(func() (Event, bool) { return e, true })
}

// Observe records what look sees. Nothing else is recorded meanwhile, so that what is seen did not
// change in between; look must be quick. It records nothing if look returns false.
func (r *Recorder) Observe(look func() (Event, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := look(); ok {
		e.At = r.now()
		r.events = append(r.events, e)
	}
}

// Events returns all events so far, in order.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
