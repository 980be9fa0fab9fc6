package prometheus_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	fleet "github.com/holdfast-go/holdfast/contrib/prometheus"
)

func TestALostMajorityAndLeasesInTroubleAreExported(t *testing.T) {
	t.Parallel()
	m := fleet.New(fleet.Config{})
	n := node{Registry: prometheus.NewPedanticRegistry()}
	n.MustRegister(m)
	events := m.Events(holdfast.Events{})
	events.Quorum(false, []string{"b"})
	events.Jeopardy("a", holdfast.Jeopardy{})
	events.Jeopardy("a", holdfast.Jeopardy{Safe: true})
	text := n.exposition(t)
	if !strings.Contains(text, "holdfast_quorum 0\n") || !strings.Contains(text, "holdfast_lease_jeopardies_total 1\n") {
		t.Error(text)
	}
	events.Quorum(true, nil)
	if !strings.Contains(n.exposition(t), "holdfast_quorum 1\n") {
		t.Error("the majority is back, and nothing says so")
	}
}
