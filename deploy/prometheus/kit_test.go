package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/contrib/prometheus/guard"
	"github.com/holdfast-go/holdfast/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything here takes.
const patience = 90 * time.Second

// node is the registry of a real node that has worked, and of a guard.
func node(t *testing.T) *client.Registry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	registry, metrics, checks := client.NewRegistry(), fleet.New(fleet.Config{}), guard.New()
	registry.MustRegister(metrics, checks)
	c, err := holdfast.Open(ctx, holdfast.Config{Events: metrics.Events(holdfast.Events{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	metrics.Attach(c)
	orders := fence.NewMemory()
	orders.Observe(checks.Of("orders"))
	err = c.Do(ctx, "order/7", func(ctx context.Context, l *holdfast.Lease) error {
		return orders.Check(ctx, "order/7", fence.Token(l.Token()))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := orders.Check(ctx, "order/7", 1); !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	for !has(t, registry, "holdfast_hold_seconds") { // a hook is called a moment after what it tells of
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no hook has told of the end of the lease")
		}
	}
	return registry
}

func has(t *testing.T, r *client.Registry, name string) bool {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
}

// exported are the series of a registry by name, as labels with the values of each; those that a
// server adds included.
type exported map[string]map[string][]string

func gather(t *testing.T) exported {
	t.Helper()
	families, err := node(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(exported)
	for _, f := range families {
		labels := map[string][]string{"job": nil, "instance": nil}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			all[f.GetName()] = labels
			continue
		}
		all[f.GetName()+"_sum"], all[f.GetName()+"_count"] = labels, labels
		buckets := map[string][]string{"le": {"+Inf"}}
		for label, values := range labels {
			buckets[label] = values
		}
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			buckets["le"] = append(buckets["le"], bound(b.GetUpperBound()))
		}
		all[f.GetName()+"_bucket"] = buckets
	}
	return all
}

func bound(le float64) string {
	text, err := json.Marshal(le)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// rule is an alert.
type rule struct {
	Alert  string            `yaml:"alert"`
	Expr   string            `yaml:"expr"`
	Labels map[string]string `yaml:"labels"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule } `yaml:"groups"`
	}
	decode(t, "rules.yml", &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

func decode(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// query is one of the dashboard, with values in the place of Grafana's variables.
type query struct{ panel, expr string }

func queries(t *testing.T) []query {
	t.Helper()
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		} `yaml:"panels"`
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	decode(t, "dashboard.json", &file) // JSON is YAML
	var all []query
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, target.Expr})
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (job|instance)\)$`)
	for _, v := range file.Templating.List {
		if v.Type == "query" {
			parts := values.FindStringSubmatch(v.Definition)
			if parts == nil {
				t.Fatalf("variable %s is %q", v.Name, v.Definition)
			}
			all = append(all, query{"variable " + v.Name, parts[1]})
		}
	}
	if len(all) == 0 {
		t.Fatal("no queries")
	}
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	for i := range all {
		all[i].expr = fill.Replace(all[i].expr)
	}
	return all
}
