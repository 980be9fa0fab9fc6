package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/seam"
)

// lifecycle is the life of a node, from New until nothing of it is left. It goes forward only, as
// the package comment draws it:
//
//	stage     begins with    what holds from then on
//	opening   newLifecycle   Open takes the directory, the port and gossip
//	running   opened         what Open took may be given back
//	leaving   BeginLeave     no call begins; goroutines run on, since the group must learn of it
//	closing   beginClosing   calls under way end with the cause; the first cause stays
//	done      done           no lease is valid. The node gives them back to the group now
//	stopping  stop           ctx has ended: goroutines end, and none begins. The node gives back what Open took
//	gone      gone           Close returns
//
// opened, done and gone are channels, each closed once. A failure during opening begins closing at
// once; shutdown waits for opened. The first call of BeginLeave and of beginClosing begins the
// stage, and later calls return that it has begun.
type lifecycle struct {
	ctx    context.Context // of every goroutine of the node
	cancel context.CancelFunc

	opened  chan struct{}
	leaves  atomic.Bool
	given   atomic.Bool // the group knows that this process is gone: from leaving, or from done
	closing chan struct{}
	done    chan struct{}
	gone    chan struct{}

	mu      sync.Mutex
	cause   error // of closing
	failure error // cause, unless it is seam.ErrEnded
	running sync.WaitGroup
}

func newLifecycle() lifecycle {
	ctx, cancel := context.WithCancel(context.Background())
	return lifecycle{
		ctx: ctx, cancel: cancel,
		opened: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}),
	}
}

// BeginLeave begins to leave, or returns what calls return by now.
func (l *lifecycle) BeginLeave() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return l.cause
	case !l.leaves.CompareAndSwap(false, true):
		return seam.ErrEnded
	}
	return nil
}

// leaving reports whether Leave has begun, also after it.
func (l *lifecycle) leaving() bool { return l.leaves.Load() }

// beginClosing reports whether this call is the first.
func (l *lifecycle) beginClosing(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	if !errors.Is(cause, seam.ErrEnded) {
		l.failure = cause
	}
	close(l.closing)
	return true
}

func (l *lifecycle) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

// Stopped is nil while calls may begin, then the error that they return.
func (l *lifecycle) Stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil && l.leaving() {
		return seam.ErrEnded
	}
	return l.cause
}

// Failure reports whether closing has begun, and because of which failure, if any.
func (l *lifecycle) Failure() (failure error, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure, l.cause != nil
}

// unlessStopping calls f, and keeps the node from stopping meanwhile. It reports false, and does not
// call f, once stopping has begun.
func (l *lifecycle) unlessStopping(f func()) (called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	f()
	return true
}

// Go runs f in a goroutine with the node's context. It reports false, and does not run f, once
// stopping has begun.
func (l *lifecycle) Go(f func(context.Context)) (runs bool) {
	return l.unlessStopping(func() { l.running.Go(func() { f(l.ctx) }) })
}

// Do runs f with the node's context, as Go does, on this goroutine.
func (l *lifecycle) Do(f func(context.Context)) (runs bool) {
	if !l.unlessStopping(func() { l.running.Add(1) }) {
		return false
	}
	defer l.running.Done()
	f(l.ctx)
	return true
}

// Closing is closed when the node begins to close.
func (l *lifecycle) Closing() <-chan struct{} { return l.closing }

// Done is closed when no lease of the node is valid any more.
func (l *lifecycle) Done() <-chan struct{} { return l.done }
