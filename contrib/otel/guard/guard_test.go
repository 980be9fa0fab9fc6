package guard_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/otel/guard"
	"github.com/holdfast-go/holdfast/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStaleTokensAreCountedByGuard(t *testing.T) {
	reader := sdk.NewManualReader()
	checks, err := guard.New(sdk.NewMeterProvider(sdk.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	orders := fence.NewMemory()
	orders.Observe(checks.Of("orders"))
	for _, token := range []fence.Token{5, 6, 5} {
		if err := orders.Check(t.Context(), "order/7", token); err != nil && !errors.Is(err, fence.ErrStale) {
			t.Fatal(err)
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		guard, _ := p.Attributes.Value("guard")
		result, _ := p.Attributes.Value("result")
		got[guard.AsString()+" "+result.AsString()] = p.Value
	}
	if len(got) != 3 || got["orders admitted"] != 2 || got["orders stale"] != 1 || got["orders failed"] != 0 {
		t.Errorf("%v", got)
	}
}

func TestAServiceThatGuardsAResourceDoesNotLinkRaft(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if pkg == "github.com/holdfast-go/holdfast" || strings.Contains(pkg, "dragonboat") {
			t.Errorf("it links %s", pkg)
		}
	}
}
