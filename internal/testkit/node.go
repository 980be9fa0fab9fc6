// Package testkit opens nodes and fleets for tests of the root package and of the tiers above it
// (sim/virtual, sim/processes), and waits for what they do.
//
//	node.go    a node alone, calls that must succeed, and waits until something is so
//	fleet.go   fleets on real sockets in this process, and certificates
//	sim.go     what is asked of simulated fleets
//	calls.go   every call of a node; its end
//	load.go    the honest use of a fleet, its gaps and its price
package testkit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Patience is for what must come in the end, on a machine whose processors are busy with other tests: a wait
// that succeeds returns as soon as it does.
const Patience = 2 * time.Minute

// Quiet is a logger for tests in which nodes have reason to complain.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Single opens a working node in memory and closes it at the end of the test.
func Single(t testing.TB, change ...func(*holdfast.Config)) *holdfast.Cluster {
	t.Helper()
	cfg := holdfast.Config{MaxTTL: holdfast.TTLMax}
	for _, f := range change {
		f(&cfg)
	}
	c, err := holdfast.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(Within(t, Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Within returns a context that ends with the test or after d.
func Within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Until returns a context that ends after d, also where the test has no end before: in a bubble.
func Until(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// Acquire takes a lock, within Patience of real time.
func Acquire(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	l, err := c.Acquire(Within(t, Patience), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Get takes a lock within a minute of virtual time.
func Get(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	l, err := c.Acquire(Until(time.Minute), name, opts...)
	if err != nil {
		t.Fatalf("acquiring %s: %v", name, err)
	}
	return l
}

// Queue makes a call of c wait for a lock until the test is over, and returns when the group has it in
// the queue.
func Queue(t testing.TB, c *holdfast.Cluster, name string, opts ...holdfast.Option) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watch := c.Watch(ctx, name) // from here on
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = c.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() { cancel(); <-over })
	for e, err := range watch {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == holdfast.EventQueued {
			return
		}
	}
}

// Release gives a lock back.
func Release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(Within(t, Patience)); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until ok, which is asked again after every change of a lock that node c applies.
func Eventually(t testing.TB, c *holdfast.Cluster, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	changes := c.Watch(ctx, "") // from here on
	if ok() {
		return
	}
	for _, err := range changes {
		if err == nil && ok() {
			return
		}
	}
	t.Fatalf("no %s within %v", what, Patience)
}

// Polled waits until ok, for what no event tells of: gossip and the membership, Once keys, the
// inside of a node.
func Polled(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s within %v", what, Patience)
		}
	}
}
