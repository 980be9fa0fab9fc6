package holdfast

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/fsm"
)

const (
	// watchesMax is how many Watch and Observe a node serves at a time.
	watchesMax = 1024
	// watchEventsMax and watchBytesMax bound what waits for one consumer; values count as bytes.
	watchEventsMax = 4096
	watchBytesMax  = 4 << 20
)

// feed hands what the local replica has applied to those who watch. Publishing only appends to bounded
// buffers: a slow consumer misses events and is told so; nobody waits for it.
type feed struct {
	closing <-chan struct{}
	cause   func() error

	count   atomic.Int32
	mu      sync.Mutex
	watches map[*watch]struct{}
}

// watch is one consumer.
type watch struct {
	feed  *feed
	name  string
	exact bool // else name is a prefix
	wake  chan struct{}
	stop  func() bool

	mu     sync.Mutex
	events []fsm.Event
	bytes  int
	missed uint64 // command of the last event that did not fit behind events, 0: none
}

func newFeed(closing <-chan struct{}, cause func() error) *feed {
	return &feed{closing: closing, cause: cause, watches: make(map[*watch]struct{})}
}

// open begins a watch, which ends with ctx or close.
func (f *feed) open(ctx context.Context, name string, exact bool) (*watch, error) {
	if ctx == nil {
		return nil, invalid("context", "is nil")
	}
	if err := checkText("name or prefix", name, 0, NameMax); err != nil {
		return nil, err
	}
	w := &watch{feed: f, name: name, exact: exact, wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watches) >= watchesMax {
		return nil, &ExhaustedError{What: "watches of this node", Limit: watchesMax}
	}
	f.watches[w] = struct{}{}
	f.count.Add(1)
	w.stop = context.AfterFunc(ctx, w.close) // also if nobody ever iterates
	return w, nil
}

func (w *watch) close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	if _, open := w.feed.watches[w]; open {
		delete(w.feed.watches, w)
		w.feed.count.Add(-1)
	}
}

// publish is called by the goroutine that applies.
func (f *feed) publish(events []fsm.Event) {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.take(events)
	}
}

// skipped tells all that the state came as a whole.
func (f *feed) skipped(last uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.mu.Lock()
		w.missed = last
		w.mu.Unlock()
		w.rouse()
	}
}

func (w *watch) take(events []fsm.Event) {
	any := false
	w.mu.Lock()
	for i := range events {
		e := &events[i]
		if !w.concerns(e) {
			continue
		}
		any = true
		if w.missed != 0 || len(w.events) >= watchEventsMax || w.bytes+len(e.Value) > watchBytesMax {
			w.missed = e.Index
			continue
		}
		w.events = append(w.events, *e)
		w.bytes += len(e.Value)
	}
	w.mu.Unlock()
	if any {
		w.rouse()
	}
}

// concerns reports whether an event is one of a lock that is watched.
func (w *watch) concerns(e *fsm.Event) bool {
	if kindOf(e) == 0 {
		return false
	}
	if w.exact {
		return e.Name == w.name
	}
	_, once := fsm.OnceKey(e.Name)
	return !once && strings.HasPrefix(e.Name, w.name)
}

func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next waits for events, or for missed to be set: the command up to which some are missing after them. The end
// of ctx or of the node is an error.
func (w *watch) next(ctx context.Context) (events []fsm.Event, missed uint64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		w.mu.Lock()
		events, missed = w.events, w.missed
		w.events, w.bytes, w.missed = nil, 0, 0
		w.mu.Unlock()
		if len(events) > 0 || missed != 0 {
			return events, missed, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		case <-w.feed.closing:
			return nil, 0, w.feed.cause()
		}
	}
}
