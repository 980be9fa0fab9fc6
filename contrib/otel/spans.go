package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/metrics"
)

// Events are the hooks for holdfast.Config.Events: they call those of own too, which may be the
// zero value. Spans are children of what the context of the call has, and functions given to Do,
// Lead and Once run in theirs.
func (t *Telemetry) Events(own holdfast.Events) holdfast.Events {
	all := metrics.Events(own, t.recorder)
	all.Begin = t.begin
	if own.Begin != nil {
		all.Begin = both(own.Begin, t.begin)
	}
	return all
}

// begin is holdfast.Events.Begin. A span is named for its kind, "holdfast.acquire" for example.
func (t *Telemetry) begin(ctx context.Context, s holdfast.Span) (context.Context, func(holdfast.Token, error)) {
	ctx, span := t.tracer.Start(ctx, "holdfast."+s.Kind.String(), trace.WithAttributes(attribute.String("holdfast.lock", label(s.Name))))
	return ctx, func(token holdfast.Token, err error) {
		defer span.End()
		if token != 0 {
			span.SetAttributes(attribute.Int64("holdfast.token", int64(token)))
		}
		if err == nil {
			return
		}
		if outcome := ordinary(err); outcome != "" {
			span.SetAttributes(attribute.String("holdfast.outcome", outcome))
			return
		}
		text := label(err.Error())
		record(span, err, text)
		span.SetStatus(codes.Error, text)
	}
}

// record is span.RecordError with a text that every exporter takes. That of the user's function may
// be no UTF-8, for which an exporter of OTLP refuses all spans of its batch.
func record(span trace.Span, err error, text string) {
	if text == err.Error() {
		span.RecordError(err)
		return
	}
	span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
		semconv.ExceptionType(fmt.Sprintf("%T", err)), semconv.ExceptionMessage(text)))
}

// ordinary names what is no failure: somebody else holds the lock, or the caller has gone.
func ordinary(err error) string {
	switch {
	case errors.Is(err, holdfast.ErrLost):
		return "" // whatever else it says
	case errors.Is(err, holdfast.ErrHeld):
		return "held"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return ""
}

type begin = func(context.Context, holdfast.Span) (context.Context, func(holdfast.Token, error))

// both is outer with inner inside of it.
func both(outer, inner begin) begin {
	return func(ctx context.Context, s holdfast.Span) (context.Context, func(holdfast.Token, error)) {
		within, endOuter := outer(ctx, s)
		if within == nil {
			within = ctx
		}
		within, endInner := inner(within, s)
		return within, func(token holdfast.Token, err error) {
			if endOuter != nil {
				defer endOuter(token, err) // also if the inner one panics
			}
			endInner(token, err)
		}
	}
}
