// Package metricstest is what the tests of contrib/prometheus and contrib/otel have in common: a
// node with something to export, and the golden exposition that both must export.
package metricstest

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/frozen"
)

// Golden is the path of the golden exposition, for tests of a module beside contrib/prometheus.
const Golden = "../prometheus/testdata/exposition.txt"

// Node is a single node.
type Node struct {
	*holdfast.Cluster
	ends chan string // names of leases that ended
}

// Open opens a node with the hooks that hooks makes of the test's own, which it calls too. The node
// is closed when the test is over.
func Open(t testing.TB, hooks func(own holdfast.Events) holdfast.Events) Node {
	t.Helper()
	ends := make(chan string, 16)
	events := hooks(holdfast.Events{Ended: func(name string, _ holdfast.Token, _ time.Duration, _ error) { ends <- name }})
	configure := func(_ int, cfg *holdfast.Config) { cfg.Events = events }
	return Node{holdfasttest.Fleet(t, 1, holdfasttest.Configure(configure))[0], ends}
}

// Work has one lease given back, one forced and one held, and one request refused. The hooks have
// been told of it.
func (n Node) Work(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"order/1", "held"} {
		if _, err := n.Acquire(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.TryAcquire(ctx, "held"); !errors.Is(err, holdfast.ErrHeld) {
		t.Fatal(err)
	}
	info, err := n.Inspect(ctx, "order/1")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ForceRelease(ctx, "order/1", info.Holders[0].Token, "test"); err != nil {
		t.Fatal(err)
	}
	<-n.ends
	if err := n.Do(ctx, "order/2", func(context.Context, *holdfast.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	<-n.ends
}

// Names is an exposition, in text, without its values: names, types, help, labels and buckets.
func Names(exposition string) string {
	return regexp.MustCompile(`(?m)^([^#].*) \S+$`).ReplaceAllString(exposition, "$1")
}

// WantGolden asserts that the names of an exposition are the golden ones.
func WantGolden(t testing.TB, exposition string) {
	t.Helper()
	frozen.Golden(t, Golden, []byte(Names(exposition)))
}
