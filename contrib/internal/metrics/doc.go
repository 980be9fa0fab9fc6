// Package metrics is the one list of what contrib/prometheus and contrib/otel export: names, units,
// help and where each value is read. It knows neither of the two libraries, and it starts no
// goroutine.
package metrics

import "github.com/holdfast-go/holdfast"

// Kind says what the values of a metric are.
type Kind uint8

// Kinds of metrics.
const (
	Gauge Kind = iota
	Counter
	Histogram // of seconds
)

// Unit is a base unit.
type Unit uint8

// Units.
const (
	None Unit = iota
	Seconds
	Bytes
)

// Metric is one of those that are exported. Its names in Prometheus and in OpenTelemetry follow
// from Name, Unit and Kind.
type Metric struct {
	Name   string   // in snake case, without prefix, unit and _total
	Labels []string // names, in the order of Point.Labels
	Kind   Kind
	Unit   Unit
	Help   string
	// Read returns the values as they are now; nil for what is told by Events. Each call returns
	// the same sets of labels.
	Read func(Snapshot) []Point
}

// Snapshot is what the values are read from.
type Snapshot struct {
	Status  holdfast.Status
	Members []holdfast.Member
}

// Read takes a snapshot of a node. It does no I/O.
func Read(c *holdfast.Cluster) Snapshot { return Snapshot{c.Status(), c.Members()} }

// Point is one value of a metric.
type Point struct {
	Labels    []string // values
	Value     uint64
	Histogram holdfast.Histogram // if the metric is one
}

// one is the only value of a metric without labels.
func one[T ~int | ~uint64](v T) []Point { return []Point{{Value: uint64(v)}} }

func truth(b bool) []Point {
	if b {
		return one(1)
	}
	return one(0)
}

func distribution(h holdfast.Histogram) []Point { return []Point{{Histogram: h}} }
