package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Events are optional hooks, for logs and metrics. The node calls each but Begin from one goroutine
// of its own, one after the other, never from a hot path; the calls of one hook have the order of
// what happened. The node collects Granted, Ended and Refused of calls that follow each other for
// up to a millisecond. A hook that blocks delays the others. When 256 of Granted, Ended and Refused
// wait, or 256 of the others, the node drops further ones, logs one warning and counts them in
// Metrics.HooksDropped. Failed is never dropped; it is the last call. The node logs the panic of a
// hook, and calls that hook again for the next event. Status.Metrics counts grants, losses and
// refusals without a hook.
type Events struct {
	// Granted is called for every lease; waited is the time from the call to the grant.
	Granted func(name string, token Token, waited time.Duration)
	// Ended is called for every lease that ends. cause is ErrReleased, or ErrLost and what it
	// wraps; held is the time since the grant. For a lease that is lost at once, Ended may be
	// called before Granted.
	Ended func(name string, token Token, held time.Duration, cause error)
	// Refused is called for every request for a lock that ended without a lease. err is the error
	// that the call returns or, in Lead, Campaign and Once, goes on from. A call whose arguments
	// are ErrInvalid, or which finds the node closed, makes no request.
	Refused func(name string, err error, waited time.Duration)
	// LeaseLost is called for every lease that ended without Release.
	LeaseLost func(name string, token Token, err error)
	// Jeopardy is called with what Lease.Jeopardy of any lease sends, whether or not its holder
	// receives it.
	Jeopardy func(name string, j Jeopardy)
	// Quorum is called with false when this node has heard no raft leader: for a second if gossip
	// misses a majority of the voters, else for ten, as where this node alone is cut off while the
	// fleet serves. missing are the node ids of the voters that gossip does not see alive. Quorum is
	// called with true and nil when the node hears a raft leader again. At a client it is called with
	// false when no replica that hears a raft leader has served this client for ten seconds, and with
	// true when one serves it again; missing is nil under Config.ClientOnly.
	Quorum func(ok bool, missing []string)
	// Ill is called with true when the node falls ill; why has the words of Status.Waits. An ill
	// node's process runs, but for a second (two elections, if that is more) its disk has not
	// finished a write, or none of its proposals and reads was answered. Ill is called with false
	// and "" when the node is well again.
	Ill func(ill bool, why string)
	// RaftLeader is called when another node, or none (""), becomes raft leader as far as this node
	// knows.
	RaftLeader func(nodeID string)
	// SessionExpired is called when the group ended a session that was not renewed; late is the
	// time since the end of its TTL, by this node's clock.
	SessionExpired func(nodeID string, late time.Duration)
	// Foreign is called when this node sees a change in another group of its name: nodes are those
	// of that group, none when it is out of sight. A lock may have a holder in each of two groups.
	// A group that no node but its founder ever joined yields by itself; between two groups that
	// other nodes have joined, an operator decides.
	Foreign func(clusterID string, nodes []string)
	// Failed is called when the node has stopped serving for good.
	Failed func(err error)

	// Begin, for tracing, is called when a span begins. The function that it returns is called once
	// when the span ends, with the token of the lease, zero if there is none, and the error of the
	// call, nil if there is none. Unlike the other hooks, both run on the goroutine that does the
	// work, and delay it: that of the caller, or the Campaign's own. They may not block, nor call
	// this Cluster or its leases. The node logs a panic of either, and the work goes on.
	//
	// ctx is that of the call. The context that Begin returns must be made from ctx; nil stands for
	// ctx, and a nil function for none. The work goes on with that context: functions given to Do,
	// Lead and Once get a context made from it, and the release that follows them is a span in it.
	// The context that Begin returns for SpanAcquire is not passed on: a lease inherits the values
	// of the caller's context.
	Begin func(ctx context.Context, span Span) (context.Context, func(token Token, err error))
}

const (
	hooksQueued = 256
	// hooksLull is the time for which the hooks' goroutine collects calls of callers. A caller that
	// wakes it pays some 4 µs, and one that leaves it asleep 50 ns.
	hooksLull = time.Millisecond
	hooksMany = hooksQueued / 4 // calls that wake the goroutine at once
	hooksLast = time.Second     // for which Close waits for a hook that still runs
)

// hooks calls the user's hooks on a goroutine that nothing else waits for. Grants, ends and refusals
// have a queue of their own: a busy node must not drop a loss for them.
type hooks struct {
	Events
	log     *slog.Logger
	news    chan func()   // losses, and what happens to the node
	calls   chan func()   // grants, ends, refusals
	many    chan struct{} // has an element when hooksMany calls wait
	stop    chan struct{}
	ended   chan struct{}
	failure error // set before stop: for Failed, the last call
	dropped atomic.Uint64

	mu     sync.Mutex
	leader string // the last that RaftLeader was called with

	abandoned atomic.Bool // the node has closed
}

func newHooks(e Events, log *slog.Logger) *hooks {
	return &hooks{
		Events: e, log: log, news: make(chan func(), hooksQueued), calls: make(chan func(), hooksQueued),
		many: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// none reports whether there is no hook for the goroutine of the hooks to call.
func (e Events) none() bool {
	return e.Granted == nil && e.Ended == nil && e.Refused == nil && e.LeaseLost == nil && e.Jeopardy == nil && e.Quorum == nil && e.Ill == nil &&
		e.RaftLeader == nil && e.SessionExpired == nil && e.Foreign == nil && e.Failed == nil
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
	lull := time.NewTimer(hooksLull)
	defer lull.Stop()
	calls := h.calls // nil while those that come may wait
	for {
		for h.next() {
			calls = nil
		}
		if calls == nil {
			lull.Reset(hooksLull)
		}
		select {
		case f := <-h.news:
			h.call(f)
		case f := <-calls:
			h.call(f)
			calls = nil
		case <-h.many:
		case <-lull.C:
			calls = h.calls
		case <-h.stop:
			for h.next() {
			}
			if f := h.Failed; f != nil && h.failure != nil {
				h.abandoned.Store(false) // the last word of the node is told in any case
				h.call(func() { f(h.failure) })
			}
			return
		}
	}
}

// next calls the hook that waits for its turn, if there is one.
func (h *hooks) next() bool {
	select {
	case f := <-h.news:
		h.call(f)
		return true
	default:
	}
	select {
	case f := <-h.calls:
		h.call(f)
		return true
	default:
		return false
	}
}

func (h *hooks) call(f func()) {
	if h.abandoned.Load() { // what the hook uses may be closed by now
		return
	}
	defer h.recovered()
	f()
}

// recovered keeps a panic of a hook from what called it. It is to be deferred.
func (h *hooks) recovered() {
	if r := recover(); r != nil {
		h.log.Error("an event hook panicked", "panic", r)
	}
}

func (h *hooks) post(queue chan func(), f func()) {
	select {
	case <-h.stop: // the goroutine has ended
		return
	default:
	}
	select {
	case queue <- f:
		if len(h.calls) >= hooksMany {
			select {
			case h.many <- struct{}{}:
			default: // it is awake
			}
		}
	default:
		if h.dropped.Add(1) == 1 {
			h.log.Warn("event hooks are too slow: events are dropped")
		}
	}
}

func (h *hooks) granted(l *tenure, waited time.Duration) {
	if f := h.Granted; f != nil {
		h.post(h.calls, func() { f(l.name(), l.token(), waited) })
	}
}

func (h *hooks) refused(name string, err error, waited time.Duration) {
	if f := h.Refused; f != nil {
		h.post(h.calls, func() { f(name, err, waited) })
	}
}

func (h *hooks) over(l *tenure, held time.Duration, cause error) {
	if f := h.LeaseLost; f != nil && errors.Is(cause, ErrLost) {
		h.post(h.news, func() { f(l.name(), l.token(), cause) })
	}
	if f := h.Ended; f != nil {
		h.post(h.calls, func() { f(l.name(), l.token(), held, cause) })
	}
}

func (h *hooks) jeopardy(l *tenure, j Jeopardy) {
	if f := h.Jeopardy; f != nil {
		h.post(h.news, func() { f(l.name(), j) })
	}
}

func (h *hooks) quorum(ok bool, missing []string) {
	if f := h.Quorum; f != nil {
		h.post(h.news, func() { f(ok, missing) })
	}
}

func (h *hooks) ill(ill bool, why string) {
	if f := h.Ill; f != nil {
		h.post(h.news, func() { f(ill, why) })
	}
}

// raftLeader calls RaftLeader, and returns true, if node ("" for none) is not the raft leader of the
// last call. Two replicas of this node, of which one has stopped, may report at the same time.
func (h *hooks) raftLeader(node string) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if node == h.leader {
		return false
	}
	h.leader = node
	if f := h.RaftLeader; f != nil {
		h.post(h.news, func() { f(node) })
	}
	return true
}

func (h *hooks) sessionExpired(node string, late time.Duration) {
	if f := h.SessionExpired; f != nil {
		h.post(h.news, func() { f(node, late) })
	}
}

func (h *hooks) foreign(cluster string, nodes []string) {
	if f := h.Foreign; f != nil {
		h.post(h.news, func() { f(cluster, nodes) })
	}
}

// end has the queued hooks called, and then Failed, unless err is nil.
func (h *hooks) end(err error) {
	h.failure = err
	close(h.stop)
}

// Span is a piece of work for which Events.Begin is called.
type Span struct {
	Kind  SpanKind
	Name  string // of the lock or election, or the key of Once
	Token Token  // of the lease; zero for SpanAcquire, which ends with it
}

// SpanKind says what a span is about.
type SpanKind uint8

// Kinds of spans.
const (
	// SpanAcquire is a request for a lock, from the call to the grant or the refusal: of Acquire,
	// TryAcquire and AcquireAll, and of each attempt of Do, Lead, Campaign, Every, Once and
	// BeginOnce.
	SpanAcquire SpanKind = iota + 1
	// SpanRelease is the end of a lease by its holder, until the group has answered: Lease.Release,
	// Run.Finish and Run.Abandon, and what Do, Lead, Campaign and Once do when their function has
	// returned. A second call of any of them is no span.
	SpanRelease
	// SpanDo is the run of the function given to Do, with the release that follows.
	SpanDo
	// SpanTenure is a time of leadership under Lead, Campaign or Every, with the release that
	// follows.
	SpanTenure
	// SpanRun is the run of the function given to Once, with the finish or the release that
	// follows, or the run of a slot of Every.
	SpanRun
)

func (k SpanKind) String() string {
	return name(uint8(k), "unknown", "acquire", "release", "do", "tenure", "run")
}

var _ fmt.Stringer = SpanKind(0)

// errNotReturned ends the span of a function that has panicked or ended its goroutine.
var errNotReturned = errors.New("holdfast: the function did not return")

// openSpan is a span that has begun. It is a value: a function would have to be allocated for each.
type openSpan struct {
	h   *hooks
	end func(Token, error) // nil: there is no hook
}

// over ends the span.
func (o openSpan) over(token Token, err error) {
	if o.end == nil {
		return
	}
	defer o.h.recovered()
	o.end(token, err)
}

// begin begins a span. The context that it returns is never nil.
func (h *hooks) begin(ctx context.Context, s Span) (context.Context, openSpan) {
	if h.Begin == nil {
		return ctx, openSpan{}
	}
	within, end := h.enter(ctx, s)
	if within == nil {
		within = ctx
	}
	return within, openSpan{h, end}
}

// enter calls Begin; a span whose Begin panicked has no end.
func (h *hooks) enter(ctx context.Context, s Span) (context.Context, func(Token, error)) {
	defer h.recovered()
	return h.Begin(ctx, s)
}

// span returns a span of this kind for the lease.
func (l *Lease) span(kind SpanKind) Span { return Span{Kind: kind, Name: l.Name(), Token: l.Token()} }
