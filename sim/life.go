package sim

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// patience is how long the service of a node may go on after the end of its context, in virtual
// time.
const patience = time.Minute

type life struct {
	node    *Node
	cluster *holdfast.Cluster
	ctx     context.Context // ends with it
	cancel  context.CancelFunc
	done    chan struct{} // closed when the service has returned

	dead bool // it crashed: what its code still does never happened. Under Sim.mu
}

type lifeKey struct{}

// begin starts the life of a node's process, and the service on it. The caller holds Node.mu.
func (n *Node) begin(c *holdfast.Cluster) *life {
	l := &life{node: n, cluster: c, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.WithValue(context.Background(), lifeKey{}, l))
	service := n.s.opts.Service
	if service == nil {
		close(l.done)
		return l
	}
	go func() {
		defer close(l.done)
		err := service(l.ctx, n, c)
		if err != nil && l.ctx.Err() == nil && !errors.Is(err, holdfast.ErrRemoved) {
			n.s.fail("the service on node %d has failed: %v", n.i, err)
		}
	}()
	return l
}

func (l *life) end() {
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(patience):
		l.node.s.fail("the service on node %d did not return within %v after its context had ended", l.node.i, patience)
	}
}

// awake waits while the node is paused, or until it has crashed, and reports whether it was paused.
func (l *life) awake() (stopped bool) {
	for {
		paused := l.node.asleep(l)
		if paused == nil {
			return stopped
		}
		stopped = true
		<-paused
	}
}

// asleep returns what is closed when the node is resumed, nil if it is awake or this life is over.
func (n *Node) asleep(l *life) chan struct{} {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if l.dead {
		return nil
	}
	return n.paused
}

// Context ends when what runs on the node now is closed, crashes or is killed; it has ended already
// if nothing runs. It tells Section.Enter which node it is. Options.Service is called with it.
func (n *Node) Context() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	return n.life.ctx
}
