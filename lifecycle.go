package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// lifecycle is the life of a node, from newCluster until nothing of it is left. It goes forward
// only:
//
//	opening ---> running ---> leaving ---> closing ---> done ---> stopping ---> gone
//	   |            |                         ^
//	   |            +---- Close, a failure ---+
//	   +---- Open fails ----------------------+
//
//	stage     begins with    what holds from then on
//	opening   newLifecycle   Open takes the directory, the port and gossip
//	running   openingOver    what Open took may be given back
//	leaving   leave          no call begins; goroutines run on, since the group must hear of it
//	closing   beginClosing   calls under way end with the cause; the first cause stays
//	done      leasesOver     Done is closed: no lease is valid. They are given back to the group now
//	stopping  stop           ctx has ended: goroutines end, and none begins. Then what Open took is given back
//	gone      allOver        Close returns
//
// Whoever fails a node that is still opening begins its closing at once; the rest waits for
// openingOver. A method that begins a stage is called once, except for leave and beginClosing:
// their first caller begins it, and the others hear so.
type lifecycle struct {
	ctx    context.Context // of every goroutine of the node
	cancel context.CancelFunc

	opened  chan struct{} // closed when opening is over
	leaves  atomic.Bool
	given   atomic.Bool   // the group knows that this process is gone: from leaving, or from done
	closing chan struct{} // closed at the beginning of its stage, as the next two
	done    chan struct{}
	gone    chan struct{}

	mu      sync.Mutex
	cause   error // of closing
	failure error // cause, unless it is ErrClosed
	running sync.WaitGroup
}

func newLifecycle() lifecycle {
	ctx, cancel := context.WithCancel(context.Background())
	return lifecycle{
		ctx: ctx, cancel: cancel,
		opened: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}),
	}
}

func (l *lifecycle) openingOver() { close(l.opened) }

// leave begins to leave, or returns what calls return by now.
func (l *lifecycle) leave() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return l.cause
	case !l.leaves.CompareAndSwap(false, true):
		return ErrClosed
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
	if !errors.Is(cause, ErrClosed) {
		l.failure = cause
	}
	close(l.closing)
	return true
}

func (l *lifecycle) leasesOver() { close(l.done) }

func (l *lifecycle) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

func (l *lifecycle) allOver() { close(l.gone) }

// stopped is nil while calls may begin, then the error that they return.
func (l *lifecycle) stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil && l.leaving() {
		return ErrClosed
	}
	return l.cause
}

// isClosing reports whether closing has begun, and because of which failure, if any.
func (l *lifecycle) isClosing() (failure error, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure, l.cause != nil
}

// unlessStopping calls f, and keeps the node from stopping meanwhile. It does nothing once that has
// begun, and reports so.
func (l *lifecycle) unlessStopping(f func()) (called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	f()
	return true
}

// goRun runs f in a goroutine with the node's context; once the node stops it does nothing, and
// reports so.
func (l *lifecycle) goRun(f func(context.Context)) (runs bool) {
	return l.unlessStopping(func() { l.running.Go(func() { f(l.ctx) }) })
}
