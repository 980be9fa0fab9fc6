package holdfast

import (
	"context"
	"errors"
	"fmt"
)

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
	// TryAcquire and AcquireAll, and of each attempt of Do, Lead, Campaign, Once and BeginOnce.
	SpanAcquire SpanKind = iota + 1
	// SpanRelease is the end of a lease by its holder, until the group has answered: Lease.Release,
	// Run.Finish and Run.Abandon, and what Do, Lead, Campaign and Once do when their function has
	// returned. A second call of any of them is no span.
	SpanRelease
	// SpanDo is the run of the function given to Do, with the release that follows.
	SpanDo
	// SpanTenure is a time of leadership under Lead or Campaign, with the release that follows.
	SpanTenure
	// SpanRun is the run of the function given to Once, with the finish or the release that
	// follows.
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
