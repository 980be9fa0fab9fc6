package otel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/otel"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// forgetful is a processor of spans, all of which are recorded, that exports nothing.
type forgetful struct{}

func (forgetful) OnStart(context.Context, trace.ReadWriteSpan) {}
func (forgetful) OnEnd(trace.ReadOnlySpan)                     {}
func (forgetful) Shutdown(context.Context) error               { return nil }
func (forgetful) ForceFlush(context.Context) error             { return nil }

func recording() *trace.TracerProvider {
	return trace.NewTracerProvider(trace.WithSpanProcessor(forgetful{}))
}

// BenchmarkPriceOfSpans compares a pair with the SDK's spans, and one without, in turn. An
// operation is a pair of each.
func BenchmarkPriceOfSpans(b *testing.B) {
	telemetry, err := fleet.New(fleet.Config{Meters: noop.NewMeterProvider(), Tracer: recording()})
	if err != nil {
		b.Fatal(err)
	}
	pair := func(events holdfast.Events) func() {
		c := testkit.Single(b, func(cfg *holdfast.Config) { cfg.Logger, cfg.Events = testkit.Quiet(), events })
		return func() {
			l, err := c.Acquire(b.Context(), "bench")
			if err == nil {
				err = l.Release(b.Context())
			}
			if err != nil {
				b.Error(err)
			}
		}
	}
	testkit.Price(b, pair(holdfast.Events{}), pair(telemetry.Events(holdfast.Events{})))
}

// BenchmarkSpansOfSDK is the SDK alone: two spans, as a pair has.
func BenchmarkSpansOfSDK(b *testing.B) {
	tracer := recording().Tracer("bench")
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range []string{"holdfast.acquire", "holdfast.release"} {
			_, span := tracer.Start(b.Context(), name, oteltrace.WithAttributes(attribute.String("holdfast.lock", "bench")))
			span.SetAttributes(attribute.Int64("holdfast.token", 7))
			span.End()
		}
	}
}
