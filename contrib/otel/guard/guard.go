// Package guard counts what guards of package fence admit and refuse. It does not link Raft, as
// package fence does not.
package guard

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/contrib/internal/checks"
	"github.com/holdfast-go/holdfast/fence"
)

// Checks is one counter, holdfast.fence_checks, with the attributes guard and result: "admitted",
// "stale" (a higher token was seen before; a holder was too late, and was stopped) and "failed"
// (any other error).
type Checks struct{ counter metric.Int64Counter }

// New returns a counter without guards. meters may be nil: the global provider. Its errors are
// those of the provider.
func New(meters metric.MeterProvider) (Checks, error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter("github.com/holdfast-go/holdfast/contrib/otel/guard")
	counter, err := meter.Int64Counter("holdfast."+checks.Name, metric.WithDescription(checks.Help))
	if err != nil {
		return Checks{}, fmt.Errorf("guard: %w", err)
	}
	return Checks{counter}, nil
}

// Of returns what to give to Observe of a guard, or to fence.Observed. guard is the attribute that
// its checks are counted under; several guards may share one. Its counters are there from now on,
// with zero.
func (c Checks) Of(guard string) func(context.Context, fence.Checked) {
	sets := make(map[string]metric.MeasurementOption)
	for _, result := range checks.Results() {
		sets[result] = metric.WithAttributeSet(attribute.NewSet(attribute.String(checks.Guard, guard), attribute.String(checks.Result, result)))
		c.counter.Add(context.Background(), 0, sets[result])
	}
	return func(ctx context.Context, checked fence.Checked) {
		c.counter.Add(ctx, 1, sets[checks.ResultOf(checked)])
	}
}
