// Command seeds runs the seeded simulation of the passive core (sim/internal/model): many seeds,
// each a fleet under faults of its own, with every invariant looked at after every step. It prints
// the figures, and for a seed that breaks a promise a plan made as small as possible, with its
// trace.
//
//	go run ./sim/cmd/seeds                     for ten seconds, from a fresh seed, which it prints
//	go run ./sim/cmd/seeds -for 10m
//	go run ./sim/cmd/seeds -seed 7 -n 1 -trace repeats one seed and prints all of its trace
//	go run ./sim/cmd/seeds -plan file.json     runs a plan that an earlier run wrote
//
// The exit status is 1 if a promise was broken or the runs were vacuous.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/sim/internal/model"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1e9, "the first seed")
	n := flag.Uint64("n", 0, "how many seeds; 0: as many as the time allows")
	d := flag.Duration("for", 10*time.Second, "how long to run, without -n")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "seeds at a time")
	trace := flag.Bool("trace", false, "print the whole trace of each run")
	shrink := flag.Int("shrink", 2000, "how many runs to spend on making a failing plan smaller")
	plan := flag.String("plan", "", "run the plan in this file")
	save := flag.String("save", "", "write the smaller plan of a failing seed to this file")
	flag.Parse()

	if *plan != "" {
		return repeat(*plan)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // many small worlds, soon forgotten
	}
	fmt.Printf("seeds from %d\n", *seed)
	began := time.Now()
	b := &batch{next: *seed, left: *n, until: began.Add(*d), counted: *n > 0, trace: *trace}
	var all sync.WaitGroup
	for range *workers {
		all.Go(b.work)
	}
	all.Wait()
	report(&b.stats, time.Since(began))
	if b.failed != nil {
		return tell(b.failed, *shrink, *save)
	}
	if what := b.stats.Shortfall(); what != "" && b.stats.Runs >= 50 {
		return fmt.Errorf("vacuous runs: %s", what)
	}
	return nil
}

type batch struct {
	counted bool
	until   time.Time
	trace   bool
	stop    atomic.Bool

	mu     sync.Mutex
	next   uint64
	left   uint64
	stats  model.Stats
	failed *model.Plan
}

func (b *batch) seed() (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop.Load() || b.counted && b.left == 0 || !b.counted && time.Now().After(b.until) {
		return 0, false
	}
	b.next++
	b.left--
	return b.next - 1, true
}

func (b *batch) work() {
	for seed, ok := b.seed(); ok; seed, ok = b.seed() {
		p := model.Random(seed)
		var opts []model.Option
		if b.trace {
			opts = append(opts, model.Traced)
		}
		r := model.Run(p, opts...)
		b.mu.Lock()
		b.stats.Add(r.Stats)
		for _, line := range r.Trace {
			fmt.Println(line)
		}
		if r.Violation != nil {
			fmt.Printf("seed %d: %v\n", seed, r.Violation)
			if b.failed == nil {
				b.failed = &p
			}
			b.stop.Store(true)
		}
		b.mu.Unlock()
	}
}

func report(s *model.Stats, took time.Duration) {
	fmt.Printf("%d seeds in %v: %.1f simulated hours (%.0f times real time), %d commands applied (%.0f a second), %d steps (%.0f a second)\n",
		s.Runs, took.Round(time.Millisecond), s.Simulated.Hours(), s.Simulated.Seconds()/took.Seconds(),
		s.Applied, float64(s.Applied)/took.Seconds(), s.Steps, float64(s.Steps)/took.Seconds())
	if cpu := process.CPU().Seconds(); cpu > 0 {
		fmt.Printf("in %.1f s of one processor: %.0f times real time, %.0f commands and %.0f steps a second of it\n",
			cpu, s.Simulated.Seconds()/cpu, float64(s.Applied)/cpu, float64(s.Steps)/cpu)
	}
	fmt.Printf("%d entries, %d commands together with others, %d checks of whole states, %d calls, %d grants, %d expired, %d raft leaders, %d restarts, %d snapshots installed, %d faults, %d unknown outcomes\n",
		s.Commands, s.Together, s.Checks, s.Calls, s.Grants, s.Expired, s.Leaders, s.Restarts, s.Snapshots, s.Faults, s.Unknown)
	fmt.Printf("%d writes: %d updates lost by the unfenced resource, none by the fenced one, which refused %d\n",
		s.Writes, s.LostWrites, s.Refused)
	fmt.Printf("%d sets, %d rests over, %d Once keys begun, %d of them finished, %d forgotten; %d leaders elected, %d campaigns after a loss, %d values written, %d looks\n",
		s.Sets, s.Rests, s.Begun, s.Finished, s.Forgotten, s.Elections, s.Campaigns, s.Written, s.Looks)
	fmt.Printf("%d disks opened elsewhere while their processes lived, %d of them with a valid lease; %d sessions ended by a proof, %d by an operator's word on their node; %d refusals of a quota\n",
		s.Moved, s.Outlived, s.Proven, s.Revoked, s.OverQuota)
	fmt.Printf("%d states recovered while others lived\n", s.Recovered)
	fmt.Printf("%d silent voters removed, %d standbys promoted, %d nodes let go, %d changes void, %d nodes back in another life, %d dead for good, %d of them replaced, %d times gossip and Raft cut apart\n",
		s.Removed, s.Promoted, s.LetGo, s.Void, s.Returned, s.Died, s.Replaced, s.Parted)
	fmt.Printf("%d leases outlived their time as their machine had stood still with its clocks, %d times a process found that out; %d voters removed that were heard without progress, %d disks hung\n",
		s.Misled, s.Stopped, s.Stuck, s.Hung)
	fmt.Printf("lateness in gentle runs, of rests: %v\nof forgetting keys: %v\n", s.LateRests.String(), s.LateKeys.String())
	fmt.Printf("lateness of expiry in gentle runs: %v\nall nodes served again after at most %v\n", s.Late.String(), s.Resumed.Round(time.Millisecond))
}

func tell(p *model.Plan, tries int, save string) error {
	small := model.Shrink(*p, tries)
	r := model.Run(small, model.Traced)
	again := model.Run(small)
	fmt.Printf("\nseed %d, made smaller: %d nodes, %d calls of %d, %d faults of %d\n",
		p.Seed, small.Nodes, len(small.Calls), len(p.Calls), len(small.Faults), len(p.Faults))
	if again.Digest != r.Digest {
		fmt.Println("the run does not repeat bit by bit: something depends on more than the plan")
	}
	for _, line := range r.Trace {
		fmt.Println(line)
	}
	if save != "" {
		data, err := json.MarshalIndent(small, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(save, data, 0o644); err != nil {
			return err
		}
	}
	return fmt.Errorf("seed %d: %v", p.Seed, r.Violation)
}

func repeat(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var p model.Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := model.Run(p, model.Traced)
	for _, line := range r.Trace {
		fmt.Println(line)
	}
	if r.Violation != nil {
		return fmt.Errorf("%s: %v", name, r.Violation)
	}
	return nil
}
