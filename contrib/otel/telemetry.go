package otel

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/metrics"
)

const scope = "github.com/holdfast-go/holdfast/contrib/otel"

// Config is where and how to export. The zero value is complete.
type Config struct {
	Meters metric.MeterProvider // default: the global one
	Tracer trace.TracerProvider // default: the global one
	// Lock, if it is not nil, gives the histograms of waiting and holding an attribute "lock" with
	// what it makes of the lock's name: let it return a few values, as "order" for every
	// "order/<id>". It is called by one goroutine at a time and may not block. Default: no
	// attribute.
	Lock func(name string) string
}

// Telemetry exports one node. A process with several nodes gives each providers of its own.
type Telemetry struct {
	cluster      atomic.Pointer[holdfast.Cluster]
	recorder     *recorder
	tracer       trace.Tracer
	registration metric.Registration
}

// New returns a telemetry of a node that is not known yet: give Events to its Config, and Attach
// what Open returns. Its errors are those of the meter provider.
func New(cfg Config) (*Telemetry, error) {
	if cfg.Meters == nil {
		cfg.Meters = otel.GetMeterProvider()
	}
	if cfg.Tracer == nil {
		cfg.Tracer = otel.GetTracerProvider()
	}
	meter := cfg.Meters.Meter(scope)
	t := &Telemetry{tracer: cfg.Tracer.Tracer(scope)}
	var err error
	if t.recorder, err = newRecorder(meter, cfg.Lock); err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	if err := t.register(meter); err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	return t, nil
}

// Attach has c observed from now on, in the place of the node before it. It may be closed already:
// its last figures stay.
func (t *Telemetry) Attach(c *holdfast.Cluster) { t.cluster.Store(c) }

// Close ends the observation. A second call does nothing.
func (t *Telemetry) Close() error { return t.registration.Unregister() }

// figure is a metric that is observed.
type figure struct {
	metrics.Metric
	instrument metric.Int64Observable
}

// register has the figures of the node observed, but for its histograms.
func (t *Telemetry) register(meter metric.Meter) error {
	var figures []figure
	var instruments []metric.Observable
	for _, f := range metrics.Figures() {
		if f.Kind == metrics.Histogram {
			continue // see Histograms
		}
		instrument, err := observable(meter, f)
		if err != nil {
			return err
		}
		figures, instruments = append(figures, figure{f, instrument}), append(instruments, instrument)
	}
	instruments = append(instruments, t.recorder.quorum)
	var err error
	t.registration, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(t.recorder.quorum, t.recorder.hasQuorum())
		c := t.cluster.Load()
		if c == nil {
			return nil
		}
		s := metrics.Read(c)
		for _, f := range figures {
			for _, p := range f.Read(s) {
				o.ObserveInt64(f.instrument, int64(p.Value), metric.WithAttributeSet(attributes(f.Metric, p)))
			}
		}
		return nil
	}, instruments...)
	return err
}

func observable(meter metric.Meter, m metrics.Metric) (metric.Int64Observable, error) {
	help, unit := metric.WithDescription(m.Help), metric.WithUnit(unit(m))
	if m.Kind == metrics.Counter {
		return meter.Int64ObservableCounter(name(m), help, unit)
	}
	return meter.Int64ObservableGauge(name(m), help, unit)
}

func attributes(m metrics.Metric, p metrics.Point) attribute.Set {
	list := make([]attribute.KeyValue, len(m.Labels))
	for i, label := range m.Labels {
		list[i] = attribute.String(label, p.Labels[i])
	}
	return attribute.NewSet(list...)
}

// name is what OpenTelemetry calls a metric. Its unit tells two of one name apart in Prometheus,
// but not here.
func name(m metrics.Metric) string {
	name := "holdfast." + m.Name
	if m.Unit == metrics.Bytes {
		name += ".bytes"
	}
	return name
}

// unit is that of UCUM; none for numbers of things, which Prometheus would append to the name.
func unit(m metrics.Metric) string {
	switch m.Unit {
	case metrics.Seconds:
		return "s"
	case metrics.Bytes:
		return "By"
	}
	return ""
}

// label is a value that every exporter takes.
func label(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
