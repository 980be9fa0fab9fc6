package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
)

// report is all that a run has found out.
type report struct {
	Command string    `json:"command"`
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	Results []result  `json:"results"`
	Absent  []absence `json:"absent,omitempty"`

	systems []contestant
}

// absence is a system that was left out, or one run of it.
type absence struct {
	System string `json:"system"`
	Round  int    `json:"round,omitempty"` // 0: all
	Why    string `json:"why"`
}

// machine describes where the run was.
func machine(dir string) (string, error) {
	fsync, err := syncTime(dir)
	if err != nil {
		return "", err
	}
	kernel := "unknown kernel"
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(text))
	}
	return fmt.Sprintf("%d cores, %s/%s, kernel %s, %s, fsync p50 %s ms",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, kernel, runtime.Version(),
		chart.Number(milliseconds(fsync))), nil
}

// markdown prints the tables.
func (r *report) markdown(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "`%s`, %s: %s.\n\n", r.Command, r.Began.Format(time.DateOnly), r.Machine)
	fmt.Fprintf(&text, "A figure is the median of the rounds. In brackets is the median of its "+
		"ratios to %s in the same round, and their lowest and highest.\n", baseline)
	for _, g := range groups() {
		r.table(&text, g)
	}
	for _, c := range r.systems {
		failed, first, others, down := 0, "", 0.0, 0
		for _, x := range r.Results {
			if x.System == c.name {
				failed, others = failed+x.Failed, max(others, x.Others)
				if x.Down {
					down++
				}
				if first == "" {
					first = x.Error
				}
			}
		}
		if failed > 0 {
			fmt.Fprintf(&text, "\n%s: %d pairs failed, the first with %q.\n", c.title, failed, first)
		}
		if down > 0 {
			fmt.Fprintf(&text, "\n%s: no grant after the kill, for as long as was measured, in %d of the rounds.\n",
				c.title, down)
		}
		if others > 0.2 {
			fmt.Fprintf(&text, "\n%s: others took up to %.1f processors meanwhile.\n", c.title, others)
		}
	}
	for _, a := range r.Absent {
		when := ""
		if a.Round > 0 {
			when = fmt.Sprintf(" in round %d", a.Round)
		}
		fmt.Fprintf(&text, "\nLeft out%s: %s: %s.\n", when, a.System, strings.TrimSpace(a.Why))
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func (r *report) table(text *strings.Builder, g group) {
	fmt.Fprintf(text, "\n### %s\n\n| system | calls in |", g.title)
	for _, m := range g.metrics {
		fmt.Fprintf(text, " %s, %s |", m.title, m.unit)
	}
	text.WriteString("\n|---|---|" + strings.Repeat("---|", len(g.metrics)) + "\n")
	for _, c := range r.systems {
		found := false
		row := fmt.Sprintf("| %s | %s |", c.title, c.calls)
		for _, m := range g.metrics {
			cell := "–"
			if s, ok := summarize(r.Results, c.name, m.key); ok {
				cell, found = s.cell(c.name), true
			}
			row += " " + cell + " |"
		}
		if found {
			text.WriteString(row + "\n")
		}
	}
}

// writeJSON writes the report with its summaries to a file.
func (r *report) writeJSON(name string) error {
	sums := make(map[string]map[string]summary)
	for _, c := range r.systems {
		of := make(map[string]summary)
		for _, g := range groups() {
			for _, m := range g.metrics {
				if s, ok := summarize(r.Results, c.name, m.key); ok {
					of[m.key] = s
				}
			}
		}
		sums[c.name] = of
	}
	text, err := json.MarshalIndent(struct {
		*report
		Summaries map[string]map[string]summary `json:"summaries"`
	}{r, sums}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// writePlots writes a plot for each table.
func (r *report) writePlots(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, g := range groups() {
		if g.name == "rest" {
			continue // its columns have units of their own
		}
		p := chart.Plot{Title: g.title}
		for _, m := range g.metrics {
			if m.key == keyPairCPU {
				continue // of another unit than the others
			}
			p.Unit, p.Series = m.unit, append(p.Series, m.title)
		}
		for _, c := range r.systems {
			row := chart.Bars{Label: c.title}
			for _, m := range g.metrics[:len(p.Series)] {
				s, _ := summarize(r.Results, c.name, m.key)
				row.Values = append(row.Values, s.Value)
			}
			p.Rows = append(p.Rows, row)
		}
		if err := os.WriteFile(filepath.Join(dir, g.name+".svg"), []byte(p.SVG()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
