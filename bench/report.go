package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"text/tabwriter"
	"time"
)

// row is one figure.
type row struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Who     string  `json:"who"` // holdfast, engine
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Low     float64 `json:"low,omitempty"` // over the rounds, where there were several
	High    float64 `json:"high,omitempty"`
}

// target is a figure to be reached.
type target struct {
	Name    string  `json:"name"`
	Want    string  `json:"want"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"`
	Got     float64 `json:"got"`
	Reached bool    `json:"reached"`
}

// report gathers figures.
type report struct {
	Began   time.Time `json:"began"`
	Short   bool      `json:"short"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	CPUs    int       `json:"cpus"`
	Load    string    `json:"load"` // average, as the system tells
	Rows    []row     `json:"rows"`
	Targets []target  `json:"targets"`
}

func newReport(s settings) *report {
	r := &report{
		Began: time.Now(), Short: s.short, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/lni/dragonboat/v4" {
				r.System += ", dragonboat " + dep.Version
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load = string(load[:len(load)-1])
	}
	return r
}

// add notes a figure: the median of what the rounds gave.
func (r *report) add(section, name, who, unit string, rounds ...float64) float64 {
	if len(rounds) == 0 {
		return 0
	}
	rounds = slices.Sorted(slices.Values(rounds))
	x := row{Section: section, Name: name, Who: who, Unit: unit, Value: quantile(rounds, 0.5)}
	if len(rounds) > 1 {
		x.Low, x.High = rounds[0], rounds[len(rounds)-1]
	}
	r.Rows = append(r.Rows, x)
	fmt.Fprintf(os.Stderr, "  %-8s %-44s %-9s %12s\n", section, name, who, show(x.Value, unit))
	return x.Value
}

// compare notes the ratio of two contestants: the median over the rounds, in each of which they
// took turns.
func (r *report) compare(section, name string, ours, theirs []float64) {
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	r.add(section, name, whoRatio, unitRatio, ratios...)
}

// got is the value of a figure; false if it was not measured.
func (r *report) got(section, name, who string) (float64, bool) {
	for _, x := range r.Rows {
		if x.Section == section && x.Name == name && x.Who == who {
			return x.Value, true
		}
	}
	return 0, false
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s on %s, %d CPUs, load %s\n\n", r.Go, r.System, r.CPUs, r.Load)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "section\tfigure\twho\tmedian\tlowest\thighest")
	for _, x := range r.Rows {
		low, high := "", ""
		if x.Low != 0 || x.High != 0 {
			low, high = show(x.Low, x.Unit), show(x.High, x.Unit)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", x.Section, x.Name, x.Who, show(x.Value, x.Unit), low, high)
	}
	fmt.Fprintln(t, "\ntarget\twanted\tgot\t\t\t")
	for _, x := range r.Targets {
		verdict := "reached"
		if !x.Reached {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%.3g\t%s\t\t\n", x.Name, x.Want, x.Got, verdict)
	}
	t.Flush()
}

func (r *report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// whoRatio stands where a figure compares the two contestants.
const whoRatio = "ratio"

// Units.
const (
	unitNanos   = "ns"
	unitRate    = "/s"
	unitCount   = ""
	unitBytes   = "B"
	unitPercent = "% of a core"
	unitRatio   = "x"
)

func show(v float64, unit string) string {
	switch unit {
	case unitNanos:
		d := time.Duration(v)
		switch {
		case d.Abs() >= time.Second:
			return d.Round(10 * time.Millisecond).String()
		case d.Abs() >= time.Millisecond:
			return d.Round(10 * time.Microsecond).String()
		case d.Abs() >= time.Microsecond:
			return d.Round(100 * time.Nanosecond).String()
		}
		return fmt.Sprintf("%.1fns", v)
	case unitBytes:
		if v >= 1<<20 {
			return fmt.Sprintf("%.1f MB", v/(1<<20))
		}
		return fmt.Sprintf("%.0f B", v)
	case unitRate:
		return fmt.Sprintf("%.0f/s", v)
	case unitPercent:
		return fmt.Sprintf("%.2f %%", v)
	case unitRatio:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// quantile of a sorted list.
func quantile[T cmp.Ordered](sorted []T, q float64) T {
	var zero T
	if len(sorted) == 0 {
		return zero
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
