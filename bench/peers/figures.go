package main

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/chart"
)

// metric is one column of the tables.
type metric struct {
	key   string
	title string
	unit  string
}

// Keys of metrics.
const (
	keyP50     = "p50"
	keyP99     = "p99"
	keyShared  = "shared"
	keyGap     = "gap"
	keyFirst   = "first"
	keyRestCPU = "rest-cpu"
	keyRSS     = "rss"
	keyOwn     = "own"
	keyPairCPU = "pair-cpu"
)

func keyPairs(callers int) string    { return fmt.Sprint("pairs-", callers) }
func keyPairsP99(callers int) string { return fmt.Sprint("pairs-p99-", callers) }

// crowds are the numbers of callers with a lock each.
func crowds() []int { return []int{64, 256, 1024} }

// group is one table.
type group struct {
	name    string // of its plot's file
	title   string
	metrics []metric
}

func groups() []group {
	many := group{name: "many", title: "Many callers, each with a lock of its own"}
	for _, n := range crowds() {
		title := fmt.Sprintf("%d callers", n)
		many.metrics = append(many.metrics, metric{keyPairs(n), title, "pairs/s"})
	}
	tails := group{name: "tails", title: "The same: the slowest hundredth"}
	for _, n := range crowds() {
		title := fmt.Sprintf("%d callers, p99", n)
		tails.metrics = append(tails.metrics, metric{keyPairsP99(n), title, "ms"})
	}
	tails.metrics = append(tails.metrics, metric{keyPairCPU, "processor time of a pair at 64", "µs"})
	latency := []metric{{keyP50, "p50", "ms"}, {keyP99, "p99", "ms"}}
	return []group{
		{"one", "One caller: acquire and release", latency},
		many,
		tails,
		{"shared", "One lock that 64 callers want", []metric{{keyShared, "grants", "1/s"}}},
		{"killed", "The leader is killed: longest time without a grant", []metric{{keyGap, "gap", "ms"}}},
		{"rest", "All servers together, at rest", []metric{
			{keyFirst, "start to the first lock", "ms"}, {keyRestCPU, "processor", "% of a core"},
			{keyRSS, "RSS", "MB"}, {keyOwn, "memory without programs", "MB"},
		}},
	}
}

// median is the middle of a list, or the mean of the two there.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// summary is a metric of a system over all rounds.
type summary struct {
	Value    float64 `json:"value"` // median
	Ratio    float64 `json:"ratio"` // median of those to the baseline of the same round; 0: none
	Lowest   float64 `json:"lowest"`
	Highest  float64 `json:"highest"`
	Rounds   int     `json:"rounds"`
	Compared int     `json:"compared"` // rounds in which both have the figure
}

// summarize sums up one metric of one system; false is that there is no figure.
func summarize(results []result, system, key string) (s summary, ok bool) {
	base := make(map[int]float64)
	for _, r := range results {
		if v, ok := r.Figures[key]; ok && r.System == baseline {
			base[r.Round] = v
		}
	}
	var values, ratios []float64
	for _, r := range results {
		v, ok := r.Figures[key]
		if r.System != system || !ok {
			continue
		}
		values = append(values, v)
		if b := base[r.Round]; b > 0 {
			ratios = append(ratios, v/b)
		}
	}
	if len(values) == 0 {
		return s, false
	}
	s = summary{Value: median(values), Rounds: len(values), Compared: len(ratios)}
	if len(ratios) > 0 {
		s.Ratio, s.Lowest, s.Highest = median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	return s, true
}

// cell is a figure with its ratio to the baseline and the ratios' spread.
func (s summary) cell(system string) string {
	switch {
	case system == baseline || s.Compared == 0:
		return chart.Number(s.Value)
	case s.Compared == 1:
		return fmt.Sprintf("%s (%s×)", chart.Number(s.Value), chart.Number(s.Ratio))
	}
	return fmt.Sprintf("%s (%s×, %s–%s)",
		chart.Number(s.Value), chart.Number(s.Ratio), chart.Number(s.Lowest), chart.Number(s.Highest))
}
