package otel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/otel"
)

// traced is a node whose spans are kept.
type traced struct {
	node
	*tracetest.SpanRecorder
	provider *trace.TracerProvider
}

func openTraced(t *testing.T, own holdfast.Events) traced {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	return traced{open(t, fleet.Config{Meters: noop.NewMeterProvider(), Tracer: provider}, own), recorder, provider}
}

// tree is each span that has ended, by name, with the one that it is in, in the order of their
// ends.
func (n traced) tree() []string {
	names := make(map[any]string)
	for _, s := range n.Ended() {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var list []string
	for _, s := range n.Ended() {
		list = append(list, fmt.Sprintf("%s in %s", s.Name(), names[s.Parent().SpanID()]))
	}
	return list
}

func (n traced) check(t *testing.T, want ...string) {
	t.Helper()
	if got := n.tree(); !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
	n.Reset()
}

// attributes of a span, as text.
func attributes(s trace.ReadOnlySpan) map[attribute.Key]string {
	m := make(map[attribute.Key]string)
	for _, a := range s.Attributes() {
		m[a.Key] = a.Value.String()
	}
	return m
}

func TestSpansAreChildrenOfTheCallersAndFunctionsRunInTheirs(t *testing.T) {
	t.Parallel()
	n := openTraced(t, holdfast.Events{})
	tracer := n.provider.Tracer("test")
	work := func(ctx context.Context, _ *holdfast.Lease) error {
		_, span := tracer.Start(ctx, "work")
		span.End()
		return nil
	}
	ctx, caller := tracer.Start(t.Context(), "caller")
	if err := n.Do(ctx, "order/1", work); err != nil {
		t.Fatal(err)
	}
	caller.End()
	n.check(t, "holdfast.acquire in caller", "work in holdfast.do", "holdfast.release in holdfast.do", "holdfast.do in caller", "caller in ")

	if _, err := n.Once(t.Context(), "job/1", work); err != nil {
		t.Fatal(err)
	}
	n.check(t, "holdfast.acquire in ", "work in holdfast.run", "holdfast.release in holdfast.run", "holdfast.run in ")

	ctx, stop := context.WithCancel(t.Context())
	err := n.Lead(ctx, "jobs", func(ctx context.Context, l *holdfast.Lease) error {
		stop()
		return work(ctx, l)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	n.check(t, "holdfast.acquire in ", "work in holdfast.tenure", "holdfast.release in holdfast.tenure", "holdfast.tenure in ")
}

func TestASpanSaysWhichLockAndWhichTokenAndWhatFailed(t *testing.T) {
	t.Parallel()
	n := openTraced(t, holdfast.Events{})
	l, err := n.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.TryAcquire(t.Context(), "a"); !errors.Is(err, holdfast.ErrHeld) {
		t.Fatal(err)
	}
	failure := errors.New("the work failed")
	if err := n.Do(t.Context(), "b", func(context.Context, *holdfast.Lease) error { return failure }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	spans := n.Ended()
	if len(spans) != 5 {
		t.Fatalf("%q", n.tree())
	}
	granted, refused, failed := spans[0], spans[1], spans[4]
	if a := attributes(granted); a["holdfast.lock"] != "a" || a["holdfast.token"] != fmt.Sprint(uint64(l.Token())) || granted.Status().Code != codes.Unset {
		t.Errorf("granted: %v, %v", a, granted.Status())
	}
	if a := attributes(refused); a["holdfast.outcome"] != "held" || a["holdfast.token"] != "" || refused.Status().Code != codes.Unset {
		t.Errorf("that a lock is held is no failure: %v, %v", a, refused.Status())
	}
	if failed.Name() != "holdfast.do" || failed.Status().Code != codes.Error || failed.Status().Description != failure.Error() {
		t.Errorf("%s: %v", failed.Name(), failed.Status())
	}
}

// An exporter of OTLP refuses a batch with a string that is no UTF-8, and with it the spans of all.
func TestAnErrorWhoseTextIsNoUTF8IsRecordedInOneThatIs(t *testing.T) {
	t.Parallel()
	n := openTraced(t, holdfast.Events{})
	failure := errors.New("a\xffb")
	if err := n.Do(t.Context(), "a", func(context.Context, *holdfast.Lease) error { return failure }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	spans := n.Ended()
	events := spans[len(spans)-1].Events()
	if len(events) != 1 || events[0].Name != "exception" {
		t.Fatalf("events %v", events)
	}
	got := make(map[attribute.Key]string)
	for _, a := range events[0].Attributes {
		got[a.Key] = a.Value.String()
	}
	want := map[attribute.Key]string{"exception.type": "*errors.errorString", "exception.message": "a\uFFFDb"}
	if !maps.Equal(got, want) {
		t.Errorf("attributes %q, want %q", got, want)
	}
}

type userKey struct{}

func TestBeginOfTheUserIsAroundOurs(t *testing.T) {
	t.Parallel()
	var ends int
	n := openTraced(t, holdfast.Events{Begin: func(ctx context.Context, s holdfast.Span) (context.Context, func(holdfast.Token, error)) {
		if s.Kind == holdfast.SpanAcquire {
			return nil, nil // which stands for ctx, and for no function
		}
		return context.WithValue(ctx, userKey{}, s.Kind), func(holdfast.Token, error) { ends++ }
	}})
	err := n.Do(t.Context(), "a", func(ctx context.Context, _ *holdfast.Lease) error {
		if ctx.Value(userKey{}) != holdfast.SpanDo {
			t.Error("the function does not run in the user's context")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.check(t, "holdfast.acquire in ", "holdfast.release in holdfast.do", "holdfast.do in ")
	if ends != 2 {
		t.Errorf("%d ends were told, want those of the release and of Do", ends)
	}
}
