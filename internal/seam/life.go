package seam

import (
	"context"
	"sync"
)

// Life is the life of a node without a replica, from before Open to its end. It has the methods of Node
// that are about it.
type Life struct {
	ctx                 context.Context
	cancel              context.CancelFunc
	closing, done, gone chan struct{}

	mu      sync.Mutex
	stopped error // what calls return: set when the node leaves or closes
	closes  bool
	running sync.WaitGroup
}

// NewLife begins one.
func NewLife() *Life {
	l := &Life{closing: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Go implements Node.
func (l *Life) Go(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.running.Go(func() { f(l.ctx) })
	return true
}

// Stopped implements Node.
func (l *Life) Stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Closing implements Node.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// Done implements Node.
func (l *Life) Done() <-chan struct{} { return l.done }

// Abort is the end of a node whose Open failed before anything ran.
func (l *Life) Abort(listener Listener) {
	l.cancel()
	listener.Stopping(nil)
	listener.Stopped()
}

// End ends the node; a further call waits for that. The leases end first: giveBack, told how many there
// were, gives them back to the group. release gives back what the node has of the system; then the
// goroutines end.
func (l *Life) End(listener Listener, giveBack func(held int), release func()) {
	l.mu.Lock()
	first := !l.closes
	l.closes, l.stopped = true, ErrEnded
	l.mu.Unlock()
	if !first {
		<-l.gone
		return
	}
	close(l.closing)
	held := listener.EndLeases(ErrEnded)
	close(l.done)
	giveBack(held)
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	listener.Stopping(nil)
	release()
	l.running.Wait()
	listener.Stopped()
	close(l.gone)
}

// Leave closes a node that never comes back, unless it leaves or closes already: then it returns why.
func (l *Life) Leave(end func()) error {
	l.mu.Lock()
	err := l.stopped
	l.stopped = ErrEnded
	l.mu.Unlock()
	if err == nil {
		end()
	}
	return err
}
