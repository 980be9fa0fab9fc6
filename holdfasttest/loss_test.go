package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/sim"
)

// work is the service under test: it works while it has its lease, and says why it stopped.
func work(ctx context.Context, c *holdfast.Cluster, began chan<- *holdfast.Lease) error {
	return c.Do(ctx, "work", func(ctx context.Context, l *holdfast.Lease) error {
		began <- l
		<-ctx.Done() // one step of the work after the other, until it is over
		return context.Cause(ctx)
	})
}

// Real nodes, real time: an operator's act is the loss that comes at once.
func TestTheServiceStopsWhenItsLeaseIsLost(t *testing.T) {
	fleet := holdfasttest.Fleet(t, 3)
	began, stopped := make(chan *holdfast.Lease, 1), make(chan error, 1)
	go func() { stopped <- work(t.Context(), fleet[0], began) }()
	l := <-began
	if err := fleet[1].ForceRelease(t.Context(), l.Name(), l.Token(), "a test"); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrForced) {
		t.Errorf("it stopped with %v", err)
	}
	next, err := fleet[2].Acquire(t.Context(), "work")
	if err != nil || next.Token() <= l.Token() {
		t.Fatalf("the next holder: %v", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Virtual time: a node that is cut off knows at the end of its validity, and not before the next
// holder comes.
func TestTheServiceStopsWhenItsNodeIsCutOff(t *testing.T) {
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		began, stopped := make(chan *holdfast.Lease, 1), make(chan error, 1)
		n := s.Node(0)
		go func() { stopped <- work(n.Context(), n.Cluster(), began) }()
		l := <-began
		n.Isolate()
		at := time.Now()
		if err := <-stopped; !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("it stopped with %v", err)
		}
		if took := time.Since(at); took > 15*time.Second { // Config.TTL
			t.Errorf("it stopped after %v", took)
		}
		n.Rejoin()
		if l.Valid() {
			t.Error("the lease came back")
		}
	})
}

// The name of a cluster has 64 bytes at most, and that of a test as many as it likes.
func TestAFleetOfOneServesInATestWhoseNameIsLongerThanThatOfAClusterMayBe(t *testing.T) {
	fleet := holdfasttest.Fleet(t, 1, holdfasttest.Configure(func(_ int, cfg *holdfast.Config) { cfg.Name = "alone" }))
	l, err := fleet[0].Acquire(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	info, err := fleet[0].Inspect(t.Context(), "work")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Node != "alone" {
		t.Errorf("%+v, %v", info, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A fleet with a client waited a minute for a founder that was none, and failed.
func TestAFleetMayHaveClients(t *testing.T) {
	fleet := holdfasttest.Fleet(t, 3, holdfasttest.Configure(func(node int, cfg *holdfast.Config) { cfg.ClientOnly = node == 2 }))
	l, err := fleet[2].Acquire(t.Context(), "work")
	if err == nil {
		err = l.Release(t.Context())
	}
	if err != nil || fleet[2].Status().Role != holdfast.RoleClient {
		t.Errorf("role %v, %v", fleet[2].Status().Role, err)
	}
}

// refusing is a test that notes why it fails.
type refusing struct {
	testing.TB
	why string
}

func (r *refusing) Fatalf(format string, args ...any) {
	r.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAFleetWhoseFirstNodeIsAClientFailsAtOnce(t *testing.T) {
	r, done := &refusing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		holdfasttest.Fleet(r, 3, holdfasttest.Configure(func(node int, cfg *holdfast.Config) { cfg.ClientOnly = node == 0 }))
	}()
	<-done
	if !strings.Contains(r.why, "ClientOnly") {
		t.Errorf("it failed with %q", r.why)
	}
}
