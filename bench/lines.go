package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
)

// lines prints figures in Go's benchmark format, which benchstat reads: a line for each round.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) header() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, "goos: %s\ngoarch: %s\npkg: github.com/holdfast-go/holdfast/bench\n", runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(l.to, "# %s, %d CPUs", runtime.Version(), runtime.NumCPU())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(l.to, ", load %s", strings.TrimSpace(string(load)))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/lni/dragonboat/v4" {
				fmt.Fprintf(l.to, ", dragonboat %s", dep.Version)
			}
		}
	}
	fmt.Fprintf(l.to, ", %s\n", time.Now().UTC().Format("2006-01-02 15:04"))
}

type figure struct {
	value float64
	unit  string
}

// Units, as benchstat knows them.
const (
	unitTime = "sec/op"
	unitP99  = "p99-sec"
	unitP999 = "p99.9-sec"
	unitCPU  = "cpu-sec/op"
)

// add prints a line. A name is words joined by slashes; of=… says which contestant it is about, so
// that benchstat -col /of compares the two.
func (l *lines) add(name string, count int, figures ...figure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, "Benchmark%s\t%d", strings.ReplaceAll(name, " ", "-"), max(1, count))
	for _, f := range figures {
		fmt.Fprintf(l.to, "\t%.6g %s", f.value, f.unit)
	}
	fmt.Fprintln(l.to)
}

// spread is how long operations took: the median and the tail. It sorts them.
func spread(times []time.Duration) []figure {
	at := func(q float64) float64 { return chart.Quantile(times, q).Seconds() }
	return []figure{{at(0.5), unitTime}, {at(0.99), unitP99}, {at(0.999), unitP999}}
}
