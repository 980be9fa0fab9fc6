package otel_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/otel"
)

// A service has its node's metrics and spans exported. Here they stay in memory.
func Example() {
	ctx := context.Background()
	var histograms fleet.Histograms
	reader := sdk.NewManualReader(sdk.WithProducer(&histograms)) // in a service: sdk.NewPeriodicReader with an exporter
	spans := tracetest.NewInMemoryExporter()                     // in a service: that of OTLP
	meters := sdk.NewMeterProvider(sdk.WithReader(reader))
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans)) // in a service: WithBatcher, which blocks nobody

	telemetry, err := fleet.New(fleet.Config{Meters: meters, Tracer: tracer})
	if err != nil {
		log.Fatal(err)
	}
	defer telemetry.Close()
	c, err := holdfast.Open(ctx, holdfast.Config{Events: telemetry.Events(holdfast.Events{})}) // your own hooks, if you have any
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	telemetry.Attach(c)
	histograms.Attach(c)

	err = c.Do(ctx, "order/7", func(ctx context.Context, l *holdfast.Lease) error {
		return nil // ctx has the span of Do
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == "holdfast.leases_granted" {
				fmt.Println(m.Name, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
			}
		}
	}
	// Output:
	// holdfast.acquire
	// holdfast.release
	// holdfast.do
	// holdfast.leases_granted 1
}
