// Package otel exports what a node has counted, and what it does, to OpenTelemetry: metric
// instruments that are observed when a reader asks, histograms from events, and spans.
//
// Telemetry starts no goroutine and wraps no call. It needs the API alone. OpenTelemetry has no
// instrument for a histogram that somebody else has filled, so those of holdfast.Metrics are apart:
// Histograms is a producer for the SDK's readers. All names begin with "holdfast."; those of
// metrics become the names of contrib/prometheus when they are translated for Prometheus. Spans
// have the name of their lock; metrics have none, unless Config.Lock says so.
//
// The counter of what guards refuse is in package guard, which does not link Raft.
package otel
