package contract_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// everyHook is Events with all of its hooks set, each of which does nothing.
func everyHook(b *testing.B) holdfast.Events {
	b.Helper()
	var events holdfast.Events
	all := reflect.ValueOf(&events).Elem()
	for i := range all.NumField() {
		hook := all.Field(i)
		nothing := func([]reflect.Value) []reflect.Value { return nil }
		hook.Set(reflect.MakeFunc(hook.Type(), nothing))
	}
	// Those of a pair are called, and not by reflection.
	events.Granted = func(string, holdfast.Token, time.Duration) {}
	events.Ended = func(string, holdfast.Token, time.Duration, error) {}
	events.Begin = trace
	return events
}

type traced struct{}

// trace is the least that a tracer does: the context of a span knows it, and it has an end.
func trace(ctx context.Context, s holdfast.Span) (context.Context, func(holdfast.Token, error)) {
	return context.WithValue(ctx, traced{}, s.Kind), func(holdfast.Token, error) {}
}

// with is a node with hooks.
func with(b *testing.B, events holdfast.Events) *holdfast.Cluster {
	return single(b, func(cfg *holdfast.Config) { cfg.Logger, cfg.Events = quiet(), events })
}

// BenchmarkAcquireReleaseTold is BenchmarkAcquireRelease with every hook of Events and a tracer.
func BenchmarkAcquireReleaseTold(b *testing.B) {
	c := with(b, everyHook(b))
	b.ReportAllocs()
	for b.Loop() {
		acquireRelease(b, c, "bench")
	}
	b.ReportMetric(float64(c.Status().Metrics.HooksDropped)/float64(b.N), "dropped/op")
}

// BenchmarkPriceOfHooks compares a pair with hooks and one without, in turn. An operation is
// a pair of each.
func BenchmarkPriceOfHooks(b *testing.B) {
	all := everyHook(b)
	tracer := holdfast.Events{Begin: all.Begin}
	hooks := all
	hooks.Begin = nil
	for _, bench := range []struct {
		name   string
		events holdfast.Events
	}{{"none", holdfast.Events{}}, {"hooks", hooks}, {"tracer", tracer}, {"both", all}} {
		b.Run(bench.name, func(b *testing.B) {
			without, told := with(b, holdfast.Events{}), with(b, bench.events)
			testkit.Price(b, func() { acquireRelease(b, without, "bench") }, func() { acquireRelease(b, told, "bench") })
		})
	}
}
