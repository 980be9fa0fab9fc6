package otel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/contrib/internal/metrics"
)

// recorder writes down what events tell.
type recorder struct {
	lock       func(string) string
	wait, hold metric.Float64Histogram
	jeopardies metric.Int64Counter
	quorum     metric.Int64ObservableGauge
	lost       atomic.Bool // the quorum
}

func newRecorder(meter metric.Meter, lock func(string) string) (*recorder, error) {
	t := &recorder{lock: lock}
	jeopardies, quorum := metrics.Jeopardies(), metrics.Quorum()
	var errs [4]error
	t.wait, errs[0] = histogram(meter, metrics.Wait(), metrics.WaitBounds())
	t.hold, errs[1] = histogram(meter, metrics.Hold(), metrics.HoldBounds())
	t.jeopardies, errs[2] = meter.Int64Counter(name(jeopardies), metric.WithDescription(jeopardies.Help))
	t.quorum, errs[3] = meter.Int64ObservableGauge(name(quorum), metric.WithDescription(quorum.Help))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	t.jeopardies.Add(context.Background(), 0) // there from now on
	return t, nil
}

func histogram(meter metric.Meter, m metrics.Metric, bounds []float64) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(name(m), metric.WithDescription(m.Help), metric.WithUnit(unit(m)), metric.WithExplicitBucketBoundaries(bounds...))
}

// Wait implements metrics.Recorder.
func (t *recorder) Wait(lock, outcome string, d time.Duration) {
	t.wait.Record(context.Background(), d.Seconds(), metric.WithAttributeSet(t.attributes(metrics.Wait(), outcome, lock)))
}

// Hold implements metrics.Recorder.
func (t *recorder) Hold(lock, end string, d time.Duration) {
	t.hold.Record(context.Background(), d.Seconds(), metric.WithAttributeSet(t.attributes(metrics.Hold(), end, lock)))
}

func (t *recorder) attributes(m metrics.Metric, value, lock string) attribute.Set {
	list := []attribute.KeyValue{attribute.String(m.Labels[0], value)}
	if t.lock != nil {
		list = append(list, attribute.String(metrics.LockLabel, label(t.lock(lock))))
	}
	return attribute.NewSet(list...)
}

// Jeopardy implements metrics.Recorder.
func (t *recorder) Jeopardy() { t.jeopardies.Add(context.Background(), 1) }

// Quorum implements metrics.Recorder.
func (t *recorder) Quorum(ok bool) { t.lost.Store(!ok) }

func (t *recorder) hasQuorum() int64 {
	if t.lost.Load() {
		return 0
	}
	return 1
}
