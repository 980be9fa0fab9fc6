package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/chart"
)

// drawScale draws what section scale has printed: the medians for each size of a fleet, beside those
// of the smallest.
func drawScale(from io.Reader, to io.Writer) error {
	pair := regexp.MustCompile(`^BenchmarkScalePair/nodes=(\d+)\t\d+\t(\S+) sec/op\t(\S+) cpu-sec/op$`)
	type pairs struct{ took, cpu []float64 }
	sizes := make(map[int]pairs)
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		m := pair.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		size, _ := strconv.Atoi(m[1])
		took, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return err
		}
		cpu, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return err
		}
		of := sizes[size]
		sizes[size] = pairs{append(of.took, took), append(of.cpu, cpu)}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(sizes) == 0 {
		return errors.New("no line of section scale")
	}
	median := func(all []float64) float64 { return chart.Quantile(all, 0.5) }
	order := slices.Sorted(maps.Keys(sizes))
	least := sizes[order[0]]
	p := chart.Plot{
		Title: "A pair in fleets of several sizes", Unit: fmt.Sprintf("%d nodes = 1", order[0]),
		Series: []string{"processor time", "pairs a second"},
	}
	for _, size := range order {
		of := sizes[size]
		p.Rows = append(p.Rows, chart.Bars{
			Label:  fmt.Sprintf("%d nodes", size),
			Values: []float64{median(of.cpu) / median(least.cpu), median(least.took) / median(of.took)},
		})
	}
	_, err := io.WriteString(to, p.SVG())
	return err
}
