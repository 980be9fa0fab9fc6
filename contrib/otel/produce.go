package otel

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/metrics"
)

// Histograms are those of holdfast.Metrics, for the readers of the SDK: give one to each by
// metric.WithProducer, and Attach the node to it. Their temporality is cumulative. Without it they
// are missing, and nothing else. The zero value is ready for use.
type Histograms struct {
	source atomic.Pointer[source]
}

// source is a node, and since when it is one.
type source struct {
	*holdfast.Cluster
	since time.Time
}

var _ sdk.Producer = (*Histograms)(nil)

// Attach has c read from now on, as Telemetry.Attach does.
func (h *Histograms) Attach(c *holdfast.Cluster) { h.source.Store(&source{c, time.Now()}) }

// Produce implements metric.Producer. It does no I/O.
func (h *Histograms) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	c := h.source.Load()
	if c == nil {
		return nil, nil
	}
	s, now := metrics.Read(c.Cluster), time.Now()
	produced := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope}}
	for _, m := range metrics.Figures() {
		if m.Kind != metrics.Histogram {
			continue
		}
		data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, p := range m.Read(s) {
			point := distribution(p)
			point.Attributes, point.StartTime, point.Time = attributes(m, p), c.since, now
			data.DataPoints = append(data.DataPoints, point)
		}
		produced.Metrics = append(produced.Metrics, metricdata.Metrics{Name: name(m), Description: m.Help, Unit: unit(m), Data: data})
	}
	return []metricdata.ScopeMetrics{produced}, nil
}

// distribution is a histogram whose buckets do not include those before them, the last of which is
// for what is above all bounds.
func distribution(p metrics.Point) metricdata.HistogramDataPoint[float64] {
	point := metricdata.HistogramDataPoint[float64]{Count: p.Histogram.Count, Sum: p.Histogram.Sum}
	below := uint64(0)
	for _, b := range p.Histogram.Buckets {
		point.Bounds = append(point.Bounds, b.UpTo)
		point.BucketCounts = append(point.BucketCounts, b.Count-below)
		below = b.Count
	}
	point.BucketCounts = append(point.BucketCounts, p.Histogram.Count-below)
	return point
}
