// Command bench measures Holdfast: fleets of real processes on loopback, with data on disk and in
// memory, beside the Raft engine alone (dragonboat with an empty state machine and the same
// settings) in the same run.
//
//	cd bench && go run .            everything, about fifteen minutes
//	cd bench && go run . -short     every figure once, about a minute
//
// It prints a table, says of each target whether it was reached, and writes everything as JSON.
// Machines are noisy: contestants take turns, figures are medians over rounds, and what counts is
// the ratio within one run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// settings is what a run was asked for.
type settings struct {
	short    bool
	only     string          // sections, by comma; "" is all
	profiles string          // directory for profiles; "" takes none
	data     string          // directory for data directories
	timing   holdfast.Timing // of both contestants; what is 0 is the default

	rounds   int           // of everything that takes turns
	span     time.Duration // of one measurement
	idle     time.Duration // of one measurement of idle processor time
	locks    int           // the most locks held at a time
	million  int           // but for those beside which others are measured
	failures int           // processes killed of each kind
	opens    int           // nodes opened
}

func main() {
	if kind := os.Getenv(childVar); kind != "" {
		os.Exit(child(kind))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	s := settings{rounds: 5, span: 2 * time.Second, idle: 20 * time.Second, locks: 100_000, million: 1_000_000, failures: 20, opens: 10}
	from := flag.String("markdown", "", "measure nothing: print the figures of this file as tables in Markdown")
	out := flag.String("json", "bench.json", "file to write the figures to; empty: none")
	flag.BoolVar(&s.short, "short", false, "every figure once and quickly")
	flag.StringVar(&s.only, "only", "", "what to run, by comma: "+strings.Join(sectionNames(), ", ")+"; or a step, such as disk/throughput")
	flag.StringVar(&s.profiles, "profiles", "", "directory for profiles of the raft leader and of a follower under load")
	flag.StringVar(&s.data, "data", "", "directory for the nodes' data; default: a temporary one")
	flag.DurationVar(&s.timing.Tick, "tick", 0, "tick, to choose one by; 0: the default")
	flag.DurationVar(&s.timing.Heartbeat, "heartbeat", 0, "time between heartbeats, to choose one by; 0: the default")
	flag.DurationVar(&s.timing.Election, "election", 0, "election timeout, to choose one by; 0: the default")
	rounds := flag.Int("rounds", 0, "rounds that the contestants take turns for; 0: as -short says")
	kills := flag.Int("kills", 0, "raft leaders and followers to kill; 0: as -short says")
	span := flag.Duration("span", 0, "time of one measurement; 0: as -short says")
	flag.Parse()
	if *from != "" {
		return markdown(os.Stdout, *from)
	}
	if s.short {
		s.rounds, s.span, s.idle, s.locks, s.million, s.failures, s.opens = 1, 400*time.Millisecond, 3*time.Second, 10_000, 50_000, 1, 2
	}
	if *rounds > 0 {
		s.rounds = *rounds
	}
	if *kills > 0 {
		s.failures = *kills
	}
	if *span > 0 {
		s.span = *span
	}
	dir, err := os.MkdirTemp(s.data, "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.data = dir
	if s.profiles, err = absolute(s.profiles); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	r := newReport(s)
	for _, section := range sections() {
		if !s.wants(section.name) {
			continue
		}
		began := time.Now()
		if e := section.run(ctx, s, r); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", section.name, e))
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", section.name, time.Since(began).Round(time.Millisecond))
		if ctx.Err() != nil {
			break
		}
	}
	r.judge()
	r.print(os.Stdout)
	if *out != "" {
		err = errors.Join(err, r.write(*out))
	}
	return err
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// section is one part of a run.
type section struct {
	name string
	run  func(context.Context, settings, *report) error
}

func sections() []section {
	return []section{
		{"valid", measureValid},
		{"open", measureOpen},
		{"memory", func(ctx context.Context, s settings, r *report) error { return measureLoad(ctx, s, r, false) }},
		{"disk", func(ctx context.Context, s settings, r *report) error { return measureLoad(ctx, s, r, true) }},
		{"idle", measureIdle},
		{"traffic", measureTraffic},
		{"failover", measureFailover},
		{"stores", measureStores},
		{"million", measureMillion},
	}
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// wants reports whether a section, or a step of one ("disk/latency"), was asked for.
func (s settings) wants(name string) bool {
	if s.only == "" {
		return true
	}
	for want := range strings.SplitSeq(s.only, ",") {
		want = strings.TrimSpace(want)
		if want == name || strings.HasPrefix(want, name+"/") || strings.HasPrefix(name, want+"/") {
			return true
		}
	}
	return false
}
