package guard_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/prometheus/guard"
	"github.com/holdfast-go/holdfast/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStaleTokensAreCountedByGuard(t *testing.T) {
	checks := guard.New()
	orders, other := fence.NewMemory(), fence.NewMemory()
	orders.Observe(checks.Of("orders"))
	other.Observe(checks.Of("other"))
	for _, token := range []fence.Token{5, 6, 5} {
		if err := orders.Check(t.Context(), "order/7", token); err != nil && !errors.Is(err, fence.ErrStale) {
			t.Fatal(err)
		}
	}
	if err := orders.Check(t.Context(), "order/7", 0); err == nil || errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	want := `
		# HELP holdfast_fence_checks_total Checks of tokens by guards: admitted, stale (a higher token was seen before) or failed.
		# TYPE holdfast_fence_checks_total counter
		holdfast_fence_checks_total{guard="orders",result="admitted"} 2
		holdfast_fence_checks_total{guard="orders",result="failed"} 1
		holdfast_fence_checks_total{guard="orders",result="stale"} 1
		holdfast_fence_checks_total{guard="other",result="admitted"} 0
		holdfast_fence_checks_total{guard="other",result="failed"} 0
		holdfast_fence_checks_total{guard="other",result="stale"} 0
	`
	if err := testutil.CollectAndCompare(checks, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(checks); err != nil || len(problems) > 0 {
		t.Error(problems, err)
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
