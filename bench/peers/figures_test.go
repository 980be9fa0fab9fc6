package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
)

func example() *report {
	of := func(system string, round int, p50 float64) result {
		figures := map[string]float64{keyP50: p50, keyPairs(64): 100 * p50}
		return result{System: system, Round: round, Figures: figures}
	}
	alone := result{System: "zookeeper", Round: 4, Figures: map[string]float64{keyP50: 7}}
	alone.Failed, alone.Error, alone.Others, alone.Down = 2, "no <quorum>", 0.5, true
	all := contestants()
	return &report{
		Command: "go run . -rounds 3", Machine: "2 cores", systems: all[:3],
		Results: []result{
			of("holdfast", 1, 1), of("etcd", 1, 3), of("holdfast", 2, 2), of("etcd", 2, 4),
			of("holdfast", 3, 1), of("etcd", 3, 1.5), alone,
		},
		Absent: []absence{{"NATS", 0, "not on this machine"}, {"Postgres", 2, "start: no"}},
	}
}

func TestRatiosAreToTheBaselineOfTheSameRound(t *testing.T) {
	t.Parallel()
	results := example().Results
	got, ok := summarize(results, "etcd", keyP50)
	want := summary{Value: 3, Ratio: 2, Lowest: 1.5, Highest: 3, Rounds: 3, Compared: 3}
	if !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if cell := got.cell("etcd"); cell != "3.00 (2.00×, 1.50–3.00)" {
		t.Error(cell)
	}
	alone, ok := summarize(results, "zookeeper", keyP50)
	if !ok || alone.Compared != 0 || alone.cell("zookeeper") != "7.00" {
		t.Errorf("without a baseline: %+v", alone)
	}
	if _, ok := summarize(results, "etcd", keyGap); ok {
		t.Error("a figure that nobody measured")
	}
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	t.Parallel()
	for want, list := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}, 7: {7}} {
		if got := median(list); got != want {
			t.Errorf("%v: %v", list, got)
		}
	}
	if q := chart.Quantile([]int{1, 2, 3, 4}, 0.99); q != 4 {
		t.Error(q)
	}
}

func TestTheLongestGapCountsFromTheKillToTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grants []int64
		want   time.Duration
	}{
		{[]int64{130, 90, 105, 200}, 70}, // one before the kill is no grant after it
		{[]int64{195, 190, 180}, 80},     // the first comes late
		{[]int64{101, 110}, 90},          // it stays away
		{nil, 100},
	} {
		if got := longestGap(c.grants, 100, 200); got != c.want {
			t.Errorf("%v: %d, want %d", c.grants, got, c.want)
		}
	}
}

func TestTheReportIsMarkdownWithARowForEachSystem(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := example().markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`go run . -rounds 3`", "2 cores",
		"| system | calls in | p50, ms | p99, ms |\n|---|---|---|---|\n",
		"| holdfast ×3, disk | raft leader | 1.00 | – |\n",
		"| etcd ×3, Mutex | client | 3.00 (2.00×, 1.50–3.00) | – |\n",
		"ZooKeeper ×3, Lock: 2 pairs failed", "for as long as was measured, in 1 of the rounds", "others took up to 0.5 processors",
		"Left out: NATS: not on this machine.", "Left out in round 2: Postgres: start: no.",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestPlotsAreXMLAndJSONHasTheSummaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := example()
	name := filepath.Join(dir, "peers.json")
	if err := errors.Join(r.writePlots(filepath.Join(dir, "plots")), r.writeJSON(name)); err != nil {
		t.Fatal(err)
	}
	plots, err := filepath.Glob(filepath.Join(dir, "plots", "*.svg"))
	if err != nil || len(plots) != len(groups())-1 {
		t.Fatalf("%v, %v", plots, err)
	}
	for _, name := range plots {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(strings.NewReader(string(text))); err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Summaries map[string]map[string]summary }
	if err := json.Unmarshal(text, &back); err != nil || back.Summaries["etcd"][keyP50].Ratio != 2 {
		t.Errorf("%v: %+v", err, back)
	}
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	t.Parallel()
	const text = "12 (a) (b) S 7 12 12 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 99"
	if pid, parent, cpu, ok := parseStat(text); !ok || pid != 12 || parent != 7 || cpu != 2*time.Second {
		t.Errorf("%d, %d, %v, %v", pid, parent, cpu, ok)
	}
	if _, _, _, ok := parseStat("12 (a"); ok {
		t.Error("half a line was read")
	}
}
