// Package guard counts what guards of package fence admit and refuse. It does not link Raft, as
// package fence does not.
package guard

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/contrib/internal/checks"
	"github.com/holdfast-go/holdfast/fence"
)

// Checks is a prometheus.Collector of one counter, holdfast_fence_checks_total, with the labels
// guard and result: "admitted", "stale" (a higher token was seen before; a holder was too late, and
// was stopped) and "failed" (any other error).
type Checks struct{ *prometheus.CounterVec }

// New returns a counter without guards.
func New() Checks {
	opts := prometheus.CounterOpts{Name: "holdfast_" + checks.Name + "_total", Help: checks.Help}
	return Checks{prometheus.NewCounterVec(opts, []string{checks.Guard, checks.Result})}
}

// Of returns what to give to Observe of a guard, or to fence.Observed. guard is the label that its
// checks are counted under; several guards may share one. Its counters are there from now on, with
// zero.
func (c Checks) Of(guard string) func(context.Context, fence.Checked) {
	counters := make(map[string]prometheus.Counter)
	for _, result := range checks.Results() {
		counters[result] = c.WithLabelValues(guard, result)
	}
	return func(_ context.Context, checked fence.Checked) { counters[checks.ResultOf(checked)].Inc() }
}
