// Command bench measures Holdfast: fleets of real processes on loopback, with data on disk and in
// memory, beside the Raft engine alone (dragonboat with an empty state machine and the same
// settings) in the same run.
//
//	cd bench && go run . > new.txt      everything, about half an hour
//	cd bench && go run . -short         every figure once, about two minutes
//	benchstat -col /of new.txt          Holdfast beside the engine
//	benchstat old.txt new.txt           this version beside another
//
// It prints Go's benchmark format, a line for each round. Machines are noisy: contestants take
// turns, and what counts is the ratio within one run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

type settings struct {
	only   string          // sections, by comma; "" is all
	data   string          // directory for data directories
	timing holdfast.Timing // of both contestants; what is 0 is the default

	rounds   int           // of everything that takes turns
	span     time.Duration // of one measurement
	idle     time.Duration // of one measurement of idle processor time
	locks    int           // the most locks held at a time
	failures int           // processes killed of each kind
	opens    int           // nodes opened
	sizes    []int         // of the fleets of section scale

	gossips []int // sizes of the fleets of section gossip
	leaders []int // sizes of the fleets of section leader, with its replicas

	processes int           // of the fleet of section processes
	settle    time.Duration // before that is measured: gossip has news for a while after the start
	after     time.Duration // its raft leader was killed: leases that are lost have ended, by their TTL of 15 s
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
	s := settings{rounds: 5, span: 2 * time.Second, idle: 20 * time.Second, locks: 100_000, failures: 20, opens: 10, sizes: []int{5, 30, 100}, gossips: []int{5, 300, 1000}, leaders: []int{5, 10, 40, 80}, processes: 80, settle: time.Minute, after: 30 * time.Second}
	short := flag.Bool("short", false, "every figure once and quickly")
	flag.StringVar(&s.only, "only", "", "what to run, by comma: "+strings.Join(sectionNames(), ", ")+"; or a step, such as disk/throughput")
	flag.StringVar(&s.data, "data", "", "directory for the nodes' data; default: a temporary one")
	flag.DurationVar(&s.timing.Tick, "tick", 0, "tick, to choose one by; 0: the default")
	flag.DurationVar(&s.timing.Heartbeat, "heartbeat", 0, "time between heartbeats, to choose one by; 0: the default")
	flag.DurationVar(&s.timing.Election, "election", 0, "election timeout, to choose one by; 0: the default")
	rounds := flag.Int("rounds", 0, "rounds that the contestants take turns for; 0: as -short says")
	kills := flag.Int("kills", 0, "raft leaders and followers to kill; 0: as -short says")
	span := flag.Duration("span", 0, "time of one measurement; 0: as -short says")
	most := flag.Int("nodes", 0, "a further size of a fleet in sections scale and leader; 0: none")
	draw := flag.String("draw", "", "draw the lines of section scale that this file has, and measure nothing")
	flag.Parse()
	if *draw != "" {
		from, err := os.Open(*draw)
		if err != nil {
			return err
		}
		defer from.Close()
		return drawScale(from, os.Stdout)
	}
	if *short {
		s.rounds, s.span, s.idle, s.locks, s.failures, s.opens = 1, 400*time.Millisecond, 3*time.Second, 10_000, 1, 2
		s.sizes, s.gossips, s.leaders, s.processes, s.settle, s.after = []int{5, 30}, []int{5, 30}, []int{5, 30}, 20, 5*time.Second, 20*time.Second
	}
	if *rounds > 0 {
		s.rounds = *rounds
	}
	if *most > 0 {
		s.sizes, s.leaders = append(s.sizes, *most), append(s.leaders, *most)
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return measureAll(ctx, s, &lines{to: os.Stdout})
}

func measureAll(ctx context.Context, s settings, out *lines) (err error) {
	out.header()
	for _, section := range sections() {
		if !s.wants(section.name) || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		if e := section.run(ctx, s, out); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", section.name, e))
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %v\n", section.name, time.Since(began).Round(time.Millisecond))
	}
	return err
}

type section struct {
	name string
	run  func(context.Context, settings, *lines) error
}

func sections() []section {
	return []section{
		{"open", measureOpen},
		{"memory", func(ctx context.Context, s settings, out *lines) error { return measureLoad(ctx, s, out, false) }},
		{"disk", func(ctx context.Context, s settings, out *lines) error { return measureLoad(ctx, s, out, true) }},
		{"idle", measureIdle},
		{"client", measureClient},
		{"traffic", measureTraffic},
		{"scale", measureScale},
		{"gossip", measureGossip},
		{"leader", measureLeader},
		{"processes", measureProcesses},
		{"failover", measureFailover},
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
