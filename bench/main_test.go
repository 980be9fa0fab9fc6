package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain runs the children of the fleets, which are this program.
func TestMain(m *testing.M) {
	if kind := os.Getenv(childVar); kind != "" {
		os.Exit(child(kind))
	}
	os.Exit(m.Run())
}

// brief is a run that takes each figure once, as quickly as it can be taken.
func brief(t testing.TB) settings {
	return settings{
		short: true, data: t.TempDir(), rounds: 1, span: 50 * time.Millisecond, idle: 200 * time.Millisecond,
		locks: 10_000, million: 10_000, failures: 1, opens: 1,
	}
}

func TestEveryTargetHasItsFigure(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some twenty processes, one after the other")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := brief(t)
	r := newReport(s)
	for _, section := range sections() {
		if err := section.run(ctx, s, r); err != nil {
			t.Errorf("%s: %v", section.name, err)
		}
	}
	r.judge()
	const wanted = 42 // a figure that was not taken is not judged
	if len(r.Targets) != wanted {
		t.Errorf("%d targets were judged, want %d: %v", len(r.Targets), wanted, r.Targets)
	}
}

func TestAStepOfASectionCanBeAskedFor(t *testing.T) {
	s := settings{only: "disk/latency, idle"}
	for name, want := range map[string]bool{"disk": true, "disk/latency": true, "disk/spread": false, "idle": true, "memory": false} {
		if s.wants(name) != want {
			t.Errorf("%s is wanted: %v", name, !want)
		}
	}
}

// BenchmarkCallers is for benchstat: callers on the raft leader's node of a fleet of three
// processes, beside as many of the engine alone. An iteration is half a second of load.
func BenchmarkCallers(b *testing.B) {
	for _, onDisk := range []bool{false, true} {
		for kind, op := range map[string]string{kindHoldfast: opPair, kindEngine: opWrite} {
			for _, callers := range callerCounts() {
				b.Run(fmt.Sprintf("disk=%v/%s=%s/callers=%d", onDisk, kind, op, callers), func(b *testing.B) {
					load(b, kind, op, onDisk, callers)
				})
			}
		}
	}
}

func load(b *testing.B, kind, op string, onDisk bool, callers int) {
	s := brief(b)
	f, err := newFleet(b.Context(), s, kind, onDisk)
	if err != nil {
		b.Fatal(err)
	}
	defer f.stop()
	const span = 500 * time.Millisecond
	if _, err := f.load(b.Context(), roleLeader, op, callers, span); err != nil { // to warm up
		b.Fatal(err)
	}
	var times []time.Duration
	var took time.Duration
	for b.Loop() {
		a, err := f.load(b.Context(), roleLeader, op, callers, span)
		if err != nil {
			b.Fatal(err)
		}
		times, took = append(times, a.Times...), took+a.Took
	}
	slices.Sort(times)
	b.ReportMetric(float64(len(times))/took.Seconds(), op+"s/s")
	b.ReportMetric(float64(quantile(times, 0.5)), "p50-ns")
	b.ReportMetric(float64(quantile(times, 0.99)), "p99-ns")
}
