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

// Events are optional hooks, for logs and metrics. Each but Begin is called from one goroutine of
// the node's own, one after the other, never from a hot path; the calls of one hook are in the
// order of what happened. Granted, Ended and Refused of calls that follow each other are told
// together, up to a millisecond later. A hook that blocks delays the others. When 256 of Granted,
// Ended and Refused wait, or 256 of the others, further ones are dropped, a warning says so once,
// and Figures.HooksDropped counts them; Failed is never dropped; it is the last call. A hook that
// panics is logged and called again for the next event. What is only to be counted is in
// Status.Metrics already, without a hook.
type Events struct {
	// Granted is told of every lease; waited is the time from the call to the grant.
	Granted func(name string, token Token, waited time.Duration)
	// Ended is told of every lease that has ended. cause is ErrReleased, or ErrLost and what it
	// wraps; held is the time since the grant. A lease that is lost at once may be told to have
	// ended before it is told to be granted.
	Ended func(name string, token Token, held time.Duration, cause error)
	// Refused is told of every request for a lock that ended without a lease, and why, with the
	// error that the call returns or, in Lead, Campaign and Once, goes on from. A call whose
	// arguments are ErrInvalid, or which finds the node closed, asks for nothing and is not told.
	Refused func(name string, err error, waited time.Duration)
	// LeaseLost is told of every lease that ended without Release.
	LeaseLost func(name string, token Token, err error)
	// Jeopardy is told what Lease.Jeopardy of any lease sends, whoever reads that.
	Jeopardy func(name string, j Jeopardy)
	// Quorum is told false when the group has lost its raft leader for so long that it has no
	// majority: after a second if gossip sees that as well, else after ten. missing are the node
	// ids of the voters that gossip does not see alive. It is told true, and nil, when there is a
	// raft leader again.
	Quorum func(ok bool, missing []string)
	// Ill is told true when the node falls ill, and why, in the words of Status.Waits: its process
	// runs, but for a second (two elections, if that is more) its disk has not finished a write, or
	// nothing was answered of what it has proposed or read. It is told false, and "", when the node
	// is well again.
	Ill func(ill bool, why string)
	// RaftLeader is told when another node, or none (""), becomes raft leader as far as this one
	// knows.
	RaftLeader func(nodeID string)
	// SessionExpired is told when the group ended a session that was not renewed; late is how long
	// after the end of its TTL, by this node's clock.
	SessionExpired func(nodeID string, late time.Duration)
	// Foreign is told when what this node sees of another group of its name changes: the nodes of
	// it, none when it is out of sight. A lock may be held in each of two groups. One that nobody
	// but its founder ever joined yields by itself; between two that others have joined, an
	// operator decides.
	Foreign func(clusterID string, nodes []string)
	// Failed is told when the node has stopped serving for good.
	Failed func(err error)

	// Begin, for tracing, is called when a span begins, and the function that it returns when the
	// span ends, once, with the token of the lease, zero if there is none, and the error of the
	// call, nil if there is none. Unlike the other hooks, both run on the goroutine that does the
	// work, which waits for them: that of the caller, or the Campaign's own. They may not block,
	// nor call this Cluster or its leases. If one panics, that is logged, and the work goes on.
	//
	// ctx is that of the call. The context that Begin returns must be made from it; nil stands for
	// ctx, and a nil function for none. The work goes on with it: functions given to Do, Lead and
	// Once get a context made from it, and the release that follows them is a span in it. The one
	// that Begin returns for SpanAcquire is not passed on: a lease inherits the values of the
	// caller's context.
	Begin func(ctx context.Context, span Span) (context.Context, func(token Token, err error))
}

const (
	hooksQueued = 256
	// hooksLull is for how long calls that follow others wait, to be told together. To wake the
	// goroutine of the hooks takes a caller some 4 µs, and to leave it asleep 50 ns.
	hooksLull = time.Millisecond
	hooksMany = hooksQueued / 4 // so many do not wait
	hooksLast = time.Second     // for which Close waits for a hook that still runs
)

// hooks runs the user's hooks apart from everything that must not wait for them. What each call
// brings about waits apart from the rest: a busy node must not miss a loss.
type hooks struct {
	Events
	log     *slog.Logger
	news    chan func()   // losses, and what happens to the node
	calls   chan func()   // grants, ends, refusals
	many    chan struct{} // has an element when hooksMany calls wait
	stop    chan struct{}
	ended   chan struct{}
	failure error // set before stop: the last that is told, whatever was dropped
	dropped atomic.Uint64

	mu     sync.Mutex
	leader string // the last that was told
}

func newHooks(e Events, log *slog.Logger) *hooks {
	return &hooks{
		Events: e, log: log, news: make(chan func(), hooksQueued), calls: make(chan func(), hooksQueued),
		many: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
}

// none reports whether nobody is to be told anything from the goroutine of the hooks.
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
	case <-h.stop: // nobody would call it
		return
	default:
	}
	select {
	case queue <- f:
		if len(h.calls) >= hooksMany {
			select {
			case h.many <- struct{}{}:
			default: // it knows
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

// raftLeader reports whether node, "" for none, is another than the last that was told. Two
// replicas of this node, of which one is over, may tell at the same time.
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

// Span is a piece of work that Events.Begin is told of.
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
	end func(Token, error) // nil: nobody is told
}

// over tells that the span has ended.
func (o openSpan) over(token Token, err error) {
	if o.end == nil {
		return
	}
	defer o.h.recovered()
	o.end(token, err)
}

// begin tells of a span. The context that it returns is never nil.
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

// enter calls Begin; nothing is told of a span whose Begin panicked.
func (h *hooks) enter(ctx context.Context, s Span) (context.Context, func(Token, error)) {
	defer h.recovered()
	return h.Begin(ctx, s)
}

// span is one of a kind that is about this lease.
func (l *Lease) span(kind SpanKind) Span { return Span{Kind: kind, Name: l.Name(), Token: l.Token()} }
