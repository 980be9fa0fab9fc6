// Package feed passes applied events from the group's follower to watches. It has one writer, the
// goroutine that follows, and one bounded buffer for each watch. It starts no goroutine.
// Invariants:
//
//	F1  Publish and Skipped wait for no reader of a buffer
//	F2  a watch yields all events that concern it, in the order of the log, up to a gap; a gap names its last missing event, and
//	    comes before later events
//	F3  a buffer holds at most EventsMax events and BytesMax bytes of values, and a feed at most WatchesMax watches
//	F4  the end of its context closes a watch, also without any call of Next
//
// The caller calls Publish and Skipped from one goroutine, in the order of the log. Everything else
// is safe for concurrent use.
package feed

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	// WatchesMax bounds the watches of a feed.
	WatchesMax = 1024
	// EventsMax bounds the events in the buffer of a watch.
	EventsMax = 4096
	// BytesMax bounds the bytes of the values in a buffer.
	BytesMax = 4 << 20
)

var (
	// ErrFull: the feed has WatchesMax watches.
	ErrFull = errors.New("holdfast: too many watches")
	// ErrClosed: the feed is closed, and no event follows.
	ErrClosed = errors.New("holdfast: feed is closed")
)

// Feed is made by New.
type Feed struct {
	closed <-chan struct{}
	attend Attend

	count   atomic.Int32 // of watches, and of those whose end the group is being told
	mu      sync.Mutex
	watches map[*Watch]struct{}
}

// Attend has the group tell of the locks of a watch, and returns what ends that.
type Attend func(ctx context.Context, name string, exact bool) (end func())

// Watch is the buffer of one reader.
type Watch struct {
	feed  *Feed
	name  string
	exact bool // else name is a prefix
	wake  chan struct{}
	stop  func() bool // the end of ctx no longer closes the watch
	end   func()      // of Attend

	mu     sync.Mutex
	events []fsm.Event
	bytes  int
	gap    uint64 // command of the last event that did not fit; 0: none
}

// New returns a feed until closed is closed.
func New(closed <-chan struct{}, attend Attend) *Feed {
	return &Feed{closed: closed, attend: attend, watches: make(map[*Watch]struct{})}
}

// Watched reports whether a watch of the event's lock yields it.
func Watched(e *fsm.Event) bool {
	switch e.Kind {
	case fsm.EventGranted, fsm.EventReleased, fsm.EventLost, fsm.EventForced, fsm.EventQueued, fsm.EventWithdrawn,
		fsm.EventValueSet, fsm.EventResized, fsm.EventQuota, fsm.EventAct:
		return true
	}
	return false
}

// OfPrefix reports whether a watch of a prefix yields a watched event. Of Once keys only that of all locks
// hears, of what an operator does to them.
func OfPrefix(e *fsm.Event, prefix string) bool {
	if _, once := fsm.OnceKey(e.Name); once {
		return e.Kind == fsm.EventAct && prefix == ""
	}
	return strings.HasPrefix(e.Name, prefix)
}

// Open begins a watch of the lock of this name (exact), or of all locks whose names begin with it,
// except Once keys. It ends with ctx or Close. The error is ErrFull.
func (f *Feed) Open(ctx context.Context, name string, exact bool) (*Watch, error) {
	w := &Watch{feed: f, name: name, exact: exact, wake: make(chan struct{}, 1)}
	if !f.enter(w) {
		return nil, ErrFull
	}
	w.end = f.attend(ctx, name, exact)        // after enter: its events may come at once
	w.stop = context.AfterFunc(ctx, w.forget) // also without any call of Next
	return w, nil
}

func (f *Feed) enter(w *Watch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count.Load() >= WatchesMax {
		return false
	}
	f.watches[w] = struct{}{}
	f.count.Add(1)
	return true
}

// Close ends the watch. A second call does nothing.
func (w *Watch) Close() {
	w.stop()
	w.forget()
}

// forget frees the place of the watch after the group has heard of its end: a watch that takes the place at once
// would be one too many there.
func (w *Watch) forget() {
	if w.feed.leave(w) {
		w.end()
		w.feed.count.Add(-1)
	}
}

func (f *Feed) leave(w *Watch) (was bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, was = f.watches[w]
	delete(f.watches, w)
	return was
}

// Publish appends the events of some commands to the buffers. It keeps their values, but not the
// slice.
func (f *Feed) Publish(events []fsm.Event) {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.take(events)
	}
}

// Waiting is the count of events in all buffers.
func (f *Feed) Waiting() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.mu.Lock()
		n += len(w.events)
		w.mu.Unlock()
	}
	return n
}

// Skipped notes a gap up to this command in every buffer: the replica has restored a state.
func (f *Feed) Skipped(last uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.mu.Lock()
		w.gap = last
		w.mu.Unlock()
		w.signal()
	}
}

func (w *Watch) take(events []fsm.Event) {
	any := false
	w.mu.Lock()
	for i := range events {
		e := &events[i]
		if !w.concerns(e) {
			continue
		}
		any = true
		if w.gap != 0 || len(w.events) >= EventsMax || w.bytes+len(e.Value) > BytesMax {
			w.gap = e.Index
			continue
		}
		w.events = append(w.events, *e)
		w.bytes += len(e.Value)
	}
	w.mu.Unlock()
	if any {
		w.signal()
	}
}

// concerns reports whether an event is of a watched lock.
func (w *Watch) concerns(e *fsm.Event) bool {
	switch {
	case !Watched(e), w.exact && (e.Kind == fsm.EventQuota || e.Kind == fsm.EventAct):
		return false
	case w.exact:
		return e.Name == w.name
	}
	return OfPrefix(e, w.name)
}

func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next waits for events, or for gap: the command of the last missing event after them. The error is
// ctx's, or ErrClosed. Only one goroutine may call it.
func (w *Watch) Next(ctx context.Context) (events []fsm.Event, gap uint64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		w.mu.Lock()
		events, gap = w.events, w.gap
		w.events, w.bytes, w.gap = nil, 0, 0
		w.mu.Unlock()
		if len(events) > 0 || gap != 0 {
			return events, gap, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		case <-w.feed.closed:
			return nil, 0, ErrClosed
		}
	}
}
