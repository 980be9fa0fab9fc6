package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
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
		data: t.TempDir(), rounds: 1, span: 50 * time.Millisecond, idle: 200 * time.Millisecond,
		locks: 10_000, failures: 1, opens: 1, sizes: []int{5, 8}, gossips: []int{3}, leaders: []int{5, 7}, processes: 7,
	}
}

// benchstat skips what is no line of the benchmark format without a word.
func TestEverySectionPrintsLinesOfTheBenchmarkFormat(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some twenty processes, one after the other")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var text strings.Builder
	if err := measureAll(ctx, brief(t), &lines{to: &text}); err != nil {
		t.Error(err)
	}
	format := regexp.MustCompile(`^(goos|goarch|pkg): \S+$|^# |^Benchmark(\w+)[\w/=-]*\t\d+(\t-?[0-9.e+-]+ [\w./-]+)+$`)
	seen := make(map[string]bool)
	for line := range strings.Lines(text.String()) {
		m := format.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("no line of the format: %q", line)
			continue
		}
		seen[m[2]] = true
	}
	for _, name := range []string{
		"OpenToReady", "Pair", "Verify", "HandOver", "Callers", "CallersOnThreeNodes", "AmongGarbage", "LeadersLost", "Idle", "Held",
		"TrafficIdle", "TrafficPair", "Killed", "Panicked", "Exited", "Closed", "Stopped", "ScaleReady", "ScaleIdle", "ScalePair", "GossipComplete", "GossipIdle", "LeaderClientsReady", "LeaderIdle", "LeaderPair", "LeaderKilled", "ProcessesReady", "ProcessesIdle", "ProcessesLeaderKilled", "ClientIdle", "ClientPair", "ClientPairRatio", "ClientHandOver", "ClientHandOverRatio",
	} {
		if !seen[name] {
			t.Errorf("no figure %s", name)
		}
	}
	clientsAreSmall(t, text.String())
}

// clientsAreSmall checks what of a client's cost does not depend on the machine.
func clientsAreSmall(t *testing.T, text string) {
	t.Helper()
	found := regexp.MustCompile(`ClientIdle.* cores\t(\d+) goroutines\t(\d+) engine-goroutines\t(-?\d+) connections\t(\S+) resident-B`).FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("%d lines of clients at rest", len(found))
	}
	for _, f := range found {
		goroutines, _ := strconv.Atoi(f[1])
		resident, err := strconv.ParseFloat(f[4], 64)
		if goroutines > 20 || f[2] != "0" || f[3] != "1" || resident > 8<<20 || err != nil {
			t.Errorf("a client takes %s goroutines, %s of the engine, %s connections, %s bytes", f[1], f[2], f[3], f[4])
		}
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
