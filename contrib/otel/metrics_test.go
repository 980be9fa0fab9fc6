package otel_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/metrics/metricstest"
	fleet "github.com/holdfast-go/holdfast/contrib/otel"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a single node with its telemetry.
type node struct {
	metricstest.Node
	telemetry *fleet.Telemetry
}

func open(t *testing.T, cfg fleet.Config, own holdfast.Events) node {
	t.Helper()
	telemetry, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { telemetry.Close() })
	n := metricstest.Open(t, func(test holdfast.Events) holdfast.Events {
		own.Ended = test.Ended
		return telemetry.Events(own)
	})
	telemetry.Attach(n.Cluster)
	return node{n, telemetry}
}

// TestTranslatedForPrometheusItIsWhatTheCollectorExports compares with the golden file of
// contrib/prometheus: names, types, help, labels, buckets. So one set of rules and one dashboard
// are right for both.
func TestTranslatedForPrometheusItIsWhatTheCollectorExports(t *testing.T) {
	t.Parallel()
	registry, histograms := prometheus.NewRegistry(), new(fleet.Histograms)
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(), exporter.WithProducer(histograms))
	if err != nil {
		t.Fatal(err)
	}
	meters := sdk.NewMeterProvider(sdk.WithReader(reader))
	n := open(t, fleet.Config{Meters: meters}, holdfast.Events{})
	histograms.Attach(n.Cluster)
	n.Work(t)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	metricstest.WantGolden(t, text.String())
}

// read is what a manual reader gets, by name.
func read(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	data := make(map[string]metricdata.Aggregation)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			data[m.Name] = m.Data
		}
	}
	return data
}

func TestTheValuesAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	histograms := new(fleet.Histograms)
	reader := sdk.NewManualReader(sdk.WithProducer(histograms))
	n := open(t, fleet.Config{Meters: sdk.NewMeterProvider(sdk.WithReader(reader))}, holdfast.Events{})
	histograms.Attach(n.Cluster)
	n.Work(t)
	var data map[string]metricdata.Aggregation
	testkit.Polled(t, "a node that is ready: a busy machine may let it pause for a moment", func() bool {
		data = read(t, reader)
		points := data["holdfast.ready"].(metricdata.Gauge[int64]).DataPoints
		return len(points) == 1 && points[0].Value == 1
	})
	granted := data["holdfast.leases_granted"].(metricdata.Sum[int64])
	if points := granted.DataPoints; !granted.IsMonotonic || len(points) != 1 || points[0].Value != 3 {
		t.Errorf("granted: %v", granted)
	}
	for _, p := range data["holdfast.leases_lost"].(metricdata.Sum[int64]).DataPoints {
		if cause, _ := p.Attributes.Value("cause"); (p.Value == 1) != (cause.AsString() == "forced") {
			t.Errorf("%v lost by %v", p.Value, cause)
		}
	}
	for _, p := range data["holdfast.wait"].(metricdata.Histogram[float64]).DataPoints {
		if p.Attributes.Len() != 1 {
			t.Errorf("waiting has attributes %v, and nobody asked for a lock's name", p.Attributes)
		}
	}
	commit := data["holdfast.commit"].(metricdata.Histogram[float64]).DataPoints[0]
	counts := uint64(0)
	for _, n := range commit.BucketCounts {
		counts += n
	}
	if commit.Count == 0 || counts != commit.Count || len(commit.BucketCounts) != len(commit.Bounds)+1 || commit.Sum <= 0 {
		t.Errorf("commit: %+v", commit)
	}

	if err := n.telemetry.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.telemetry.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if data := read(t, reader); data["holdfast.ready"] != nil {
		t.Error("a closed telemetry is observed")
	}
}

func TestALostMajorityIsObservedBeforeThereIsANode(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	telemetry, err := fleet.New(fleet.Config{Meters: sdk.NewMeterProvider(sdk.WithReader(reader)), Tracer: trace.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	if scopes, err := new(fleet.Histograms).Produce(t.Context()); len(scopes) != 0 || err != nil {
		t.Error(scopes, err)
	}
	events := telemetry.Events(holdfast.Events{})
	for _, ok := range []bool{false, true} {
		events.Quorum(ok, nil)
		value := read(t, reader)["holdfast.quorum"].(metricdata.Gauge[int64]).DataPoints[0].Value
		if (value == 1) != ok {
			t.Errorf("quorum %v, told %v", value, ok)
		}
	}
}

func TestLocksAreAttributesAsTheConfigSays(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	n := open(t, fleet.Config{Meters: sdk.NewMeterProvider(sdk.WithReader(reader)), Lock: func(name string) string {
		kind, _, _ := strings.Cut(name, "/")
		return kind
	}}, holdfast.Events{})
	n.Work(t)
	locks := make(map[string]uint64)
	for _, p := range read(t, reader)["holdfast.wait"].(metricdata.Histogram[float64]).DataPoints {
		lock, _ := p.Attributes.Value("lock")
		locks[lock.AsString()] += p.Count
	}
	if len(locks) != 2 || locks["order"] != 2 || locks["held"] != 2 {
		t.Errorf("%v", locks)
	}
}

func TestWithoutAnSDKNothingIsExportedAndAllGoesOn(t *testing.T) {
	t.Parallel()
	n := open(t, fleet.Config{Meters: noop.NewMeterProvider()}, holdfast.Events{})
	n.Work(t)
}
