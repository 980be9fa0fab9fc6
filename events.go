package holdfast

import (
	"log/slog"
	"sync"
	"time"
)

// Events are optional hooks, for logs and metrics. Each is called from one goroutine of the node's
// own, in order, never from a hot path. A hook that blocks delays the ones behind it; when
// 256 wait, further ones are dropped and a warning says so. A hook that panics is logged and called again for the next event.
type Events struct {
	// LeaseLost is told of every lease that ended without Release.
	LeaseLost func(name string, token Token, err error)
	// RaftLeader is told when another node, or none (""), becomes raft leader as far as this one knows.
	RaftLeader func(nodeID string)
	// SessionExpired is told when the group ended a session that was not renewed; late is how long
	// after the end of its TTL, by this node's clock.
	SessionExpired func(nodeID string, late time.Duration)
	// Foreign is told when what this node sees of another group of its name changes: the nodes of it, none when it is out of
	// sight. A lock may be held in each of two groups. One that nobody but its founder ever joined yields by itself;
	// between two that others have joined, an operator decides.
	Foreign func(clusterID string, nodes []string)
	// Failed is told when the node has stopped serving for good.
	Failed func(err error)
}

const hooksQueued = 256

// hooks runs the user's hooks apart from everything that must not wait for them.
type hooks struct {
	Events
	log     *slog.Logger
	queue   chan func()
	stop    chan struct{}
	ended   chan struct{}
	dropped sync.Once
}

func newHooks(e Events, log *slog.Logger) *hooks {
	return &hooks{
		Events: e, log: log, queue: make(chan func(), hooksQueued),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// none reports whether there is nobody to tell anything.
func (e Events) none() bool {
	return e.LeaseLost == nil && e.RaftLeader == nil && e.SessionExpired == nil && e.Foreign == nil && e.Failed == nil
}

// start runs the hooks, unless there are none.
func (h *hooks) start() {
	if h.none() {
		close(h.ended)
		return
	}
	go h.run()
}

// run calls hooks until stop, and then those that wait.
func (h *hooks) run() {
	defer close(h.ended)
	for {
		select {
		case f := <-h.queue:
			h.call(f)
		case <-h.stop:
			for {
				select {
				case f := <-h.queue:
					h.call(f)
				default:
					return
				}
			}
		}
	}
}

func (h *hooks) call(f func()) {
	defer func() {
		if r := recover(); r != nil {
			h.log.Error("an event hook panicked", "panic", r)
		}
	}()
	f()
}

func (h *hooks) post(f func()) {
	select {
	case h.queue <- f:
	default:
		h.dropped.Do(func() { h.log.Warn("event hooks are too slow: events are dropped") })
	}
}

func (h *hooks) leaseLost(name string, token Token, err error) {
	if f := h.LeaseLost; f != nil {
		h.post(func() { f(name, token, err) })
	}
}

func (h *hooks) raftLeader(node string) {
	if f := h.RaftLeader; f != nil {
		h.post(func() { f(node) })
	}
}

func (h *hooks) sessionExpired(node string, late time.Duration) {
	if f := h.SessionExpired; f != nil {
		h.post(func() { f(node, late) })
	}
}

func (h *hooks) foreign(cluster string, nodes []string) {
	if f := h.Foreign; f != nil {
		h.post(func() { f(cluster, nodes) })
	}
}

func (h *hooks) failed(err error) {
	if f := h.Failed; f != nil {
		h.post(func() { f(err) })
	}
}
