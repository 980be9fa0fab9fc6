package prometheus_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/contrib/internal/metrics/metricstest"
	fleet "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a single node that exports to a registry of its own.
type node struct {
	metricstest.Node
	*prometheus.Registry
}

func open(t *testing.T, cfg fleet.Config) node {
	t.Helper()
	m, registry := fleet.New(cfg), prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	n := metricstest.Open(t, m.Events)
	m.Attach(n.Cluster)
	return node{n, registry}
}

// exposition is what a server would get, in text.
func (n node) exposition(t *testing.T) string {
	t.Helper()
	families, err := n.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestTheExpositionIsTheGoldenOneAndHasNoLintProblem(t *testing.T) {
	t.Parallel()
	n := open(t, fleet.Config{})
	n.Work(t)
	if problems, err := testutil.GatherAndLint(n); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	metricstest.WantGolden(t, n.exposition(t))
}

func TestTheValuesAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	n := open(t, fleet.Config{})
	n.Work(t)
	var text string
	testkit.Polled(t, "a node that is ready: a busy machine may let it pause for a moment", func() bool {
		text = n.exposition(t)
		return strings.Contains(text, "holdfast_ready 1\n")
	})
	for _, line := range []string{
		`holdfast_ready 1`, `holdfast_failed 0`, `holdfast_quorum 1`, `holdfast_raft_leader_known 1`, `holdfast_raft_leader_here 1`,
		`holdfast_voters 1`, `holdfast_standbys 0`, `holdfast_members{role="voter",state="alive"} 1`, `holdfast_foreign_groups 0`,
		`holdfast_leases_held 1`, `holdfast_calls_waiting 0`, `holdfast_leases_granted_total 3`, `holdfast_leases_released_total 1`,
		`holdfast_leases_lost_total{cause="forced"} 1`, `holdfast_leases_lost_total{cause="expired"} 0`,
		`holdfast_requests_refused_total{cause="held"} 1`, `holdfast_requests_refused_total{cause="no_quorum"} 0`,
		`holdfast_wait_seconds_count{outcome="granted"} 3`, `holdfast_wait_seconds_count{outcome="refused"} 1`,
		`holdfast_hold_seconds_count{end="released"} 1`, `holdfast_hold_seconds_count{end="lost"} 1`,
		`holdfast_raft_leader_changes_total 1`, `holdfast_hooks_dropped_total 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if strings.Contains(text, "order/") {
		t.Error("a lock's name is a label, and nobody asked for it")
	}
	if strings.Contains(text, "\nholdfast_commit_seconds_count 0\n") {
		t.Error("no commit was counted")
	}
}

func TestLocksAreLabelsAsTheConfigSays(t *testing.T) {
	t.Parallel()
	n := open(t, fleet.Config{Lock: func(name string) string { kind, _, _ := strings.Cut(name, "/"); return kind + "\xff" }})
	n.Work(t)
	text := n.exposition(t)
	for _, line := range []string{
		"holdfast_wait_seconds_count{lock=\"order\uFFFD\",outcome=\"granted\"} 2", // not UTF-8 as it was returned
		"holdfast_hold_seconds_count{end=\"lost\",lock=\"order\uFFFD\"} 1",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestANodeThatIsNotOpenYetOrClosedIsScrapedToo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(fleet.New(fleet.Config{}))
	if text := (node{Registry: registry}).exposition(t); !strings.Contains(text, "holdfast_quorum 1\n") {
		t.Errorf("before Attach: %s", text)
	}
	n := open(t, fleet.Config{})
	n.Work(t)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	text := n.exposition(t)
	for _, line := range []string{`holdfast_ready 0`, `holdfast_leases_held 0`, `holdfast_leases_lost_total{cause="closed"} 1`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("after Close: no line %q", line)
		}
	}
}
