package prometheus

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/contrib/internal/metrics"
)

// Config is how to export. The zero value is complete.
type Config struct {
	// Lock, if it is not nil, gives the histograms of waiting and holding a label "lock" with what
	// it makes of the lock's name. Each value that it returns costs some sixty series for as long
	// as the process runs: let it return a few, as "order" for every "order/<id>". It is called by
	// one goroutine at a time and may not block. Default: no label.
	Lock func(name string) string
}

// Metrics is a prometheus.Collector of one node. A process with several nodes registers each under
// labels of its own (prometheus.WrapRegistererWith).
type Metrics struct {
	cluster  atomic.Pointer[holdfast.Cluster]
	figures  []figure
	recorder recorder
}

// figure is a metric that is read from the node.
type figure struct {
	metrics.Metric
	desc *prometheus.Desc
}

// New returns metrics of a node that is not known yet: give Events to its Config, and Attach what
// Open returns.
func New(cfg Config) *Metrics {
	m := &Metrics{recorder: newRecorder(cfg.Lock)}
	for _, f := range metrics.Figures() {
		m.figures = append(m.figures, figure{f, prometheus.NewDesc(name(f), f.Help, f.Labels, nil)})
	}
	return m
}

// Events are the hooks for holdfast.Config.Events: they call those of own too, which may be the
// zero value.
func (m *Metrics) Events(own holdfast.Events) holdfast.Events { return metrics.Events(own, m.recorder) }

// Attach has c read at each scrape from now on, in the place of the node before it. It may be
// closed already: its last figures stay.
func (m *Metrics) Attach(c *holdfast.Cluster) { m.cluster.Store(c) }

// Describe sends what Collect may send.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, f := range m.figures {
		descs <- f.desc
	}
	for _, c := range m.recorder.collectors() {
		c.Describe(descs)
	}
}

// Collect sends the values of now; before Attach, only those that events tell. It does no I/O.
func (m *Metrics) Collect(values chan<- prometheus.Metric) {
	for _, c := range m.recorder.collectors() {
		c.Collect(values)
	}
	c := m.cluster.Load()
	if c == nil {
		return
	}
	s := metrics.Read(c)
	for _, f := range m.figures {
		for _, p := range f.Read(s) {
			values <- f.value(p)
		}
	}
}

var _ prometheus.Collector = (*Metrics)(nil)

func (f figure) value(p metrics.Point) prometheus.Metric {
	switch f.Kind {
	case metrics.Histogram:
		buckets := make(map[float64]uint64, len(p.Histogram.Buckets))
		for _, b := range p.Histogram.Buckets {
			buckets[b.UpTo] = b.Count
		}
		return prometheus.MustNewConstHistogram(f.desc, p.Histogram.Count, p.Histogram.Sum, buckets, p.Labels...)
	case metrics.Counter:
		return prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, float64(p.Value), p.Labels...)
	}
	return prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, float64(p.Value), p.Labels...)
}

// name is what Prometheus calls a metric.
func name(m metrics.Metric) string {
	name := "holdfast_" + m.Name
	switch m.Unit {
	case metrics.Seconds:
		name += "_seconds"
	case metrics.Bytes:
		name += "_bytes"
	}
	if m.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}

// recorder counts what events tell.
type recorder struct {
	lock       func(string) string
	wait, hold *prometheus.HistogramVec
	jeopardies prometheus.Counter
	quorum     prometheus.Gauge
}

func newRecorder(lock func(string) string) recorder {
	wait, hold, jeopardies, quorum := metrics.Wait(), metrics.Hold(), metrics.Jeopardies(), metrics.Quorum()
	t := recorder{
		lock: lock, wait: histogram(wait, metrics.WaitBounds(), lock), hold: histogram(hold, metrics.HoldBounds(), lock),
		jeopardies: prometheus.NewCounter(prometheus.CounterOpts{Name: name(jeopardies), Help: jeopardies.Help}),
		quorum:     prometheus.NewGauge(prometheus.GaugeOpts{Name: name(quorum), Help: quorum.Help}),
	}
	t.quorum.Set(1)
	return t
}

func histogram(m metrics.Metric, bounds []float64, lock func(string) string) *prometheus.HistogramVec {
	labels := m.Labels
	if lock != nil {
		labels = append(labels, metrics.LockLabel)
	}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name(m), Help: m.Help, Buckets: bounds}, labels)
}

func (t recorder) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.wait, t.hold, t.jeopardies, t.quorum}
}

// Wait implements metrics.Recorder.
func (t recorder) Wait(lock, outcome string, d time.Duration) {
	t.wait.WithLabelValues(t.labels(outcome, lock)...).Observe(d.Seconds())
}

// Hold implements metrics.Recorder.
func (t recorder) Hold(lock, end string, d time.Duration) {
	t.hold.WithLabelValues(t.labels(end, lock)...).Observe(d.Seconds())
}

func (t recorder) labels(what, lock string) []string {
	if t.lock == nil {
		return []string{what}
	}
	return []string{what, strings.ToValidUTF8(t.lock(lock), "\uFFFD")}
}

// Jeopardy implements metrics.Recorder.
func (t recorder) Jeopardy() { t.jeopardies.Inc() }

// Quorum implements metrics.Recorder.
func (t recorder) Quorum(ok bool) {
	if ok {
		t.quorum.Set(1)
		return
	}
	t.quorum.Set(0)
}
