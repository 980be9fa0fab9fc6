package prometheus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// check says what an expression names that is not exported.
func (e exported) check(expr string) error {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return err
	}
	known := make(map[string]bool) // labels of the series that are selected
	grouped := make(map[string]bool)
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			err = e.selector(n, err, known)
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				grouped[label] = true
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				for _, label := range slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include) {
					grouped[label] = true
				}
			}
		}
		return nil
	})
	for label := range grouped {
		if err == nil && !known[label] {
			err = fmt.Errorf("no label %s", label)
		}
	}
	return err
}

// selector adds the labels of what is selected to known, and says what it asks for that is not
// there.
func (e exported) selector(s *parser.VectorSelector, err error, known map[string]bool) error {
	series, ok := e[s.Name]
	if !ok {
		return errors.Join(err, fmt.Errorf("no metric %q", s.Name))
	}
	for label := range series {
		known[label] = true
	}
	for _, m := range s.LabelMatchers {
		if m.Name == "__name__" {
			continue
		}
		values, ok := series[m.Name]
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s has no label %s", s.Name, m.Name))
			continue
		}
		if m.Name == "job" || m.Name == "instance" { // a server's, with any value
			continue
		}
		wanted := []string{m.Value}
		if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
			wanted = m.SetMatches() // of a|b: both
		}
		for _, value := range wanted {
			if !slices.Contains(values, value) {
				err = errors.Join(err, fmt.Errorf("%s has no %s %q, but %q", s.Name, m.Name, value, values))
			}
		}
	}
	return err
}

func TestTheRulesAskForWhatANodeExports(t *testing.T) {
	t.Parallel()
	all := gather(t)
	for _, r := range rules(t) {
		if err := all.check(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
	}
}

func TestTheDashboardAsksForWhatANodeExportsAndLeavesNothingOut(t *testing.T) {
	t.Parallel()
	all := gather(t)
	var shown strings.Builder
	for _, q := range queries(t) {
		if err := all.check(q.expr); err != nil {
			t.Errorf("%s: %v", q.panel, err)
		}
		shown.WriteString(q.expr)
	}
	for name := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !strings.Contains(shown.String(), base) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestAQueryThatAsksForSomethingElseIsFound(t *testing.T) {
	t.Parallel()
	all := gather(t)
	for _, expr := range []string{
		`holdfast_redy`, `holdfast_ready{cause="held"}`, `holdfast_leases_lost_total{cause="lost"}`, `holdfast_leases_lost_total{cause!~"forced|lost"}`,
		`sum by (caus) (holdfast_leases_lost_total)`, `holdfast_voters / on (node) holdfast_standbys`, `holdfast_fsync_seconds`, `holdfast_ready{`,
		`holdfast_expiry_lateness_seconds_bucket{le="2"}`,
	} {
		if all.check(expr) == nil {
			t.Errorf("%s is accepted", expr)
		}
	}
}
