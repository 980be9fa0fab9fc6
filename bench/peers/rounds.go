package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
)

// bench is one run of the program.
type bench struct {
	settings
	dir      string
	rounds   int
	deadline time.Time
	store    *store
	progress io.Writer
	report   report
}

// say prints a line of progress, with the time that is left.
func (b *bench) say(format string, args ...any) {
	left := time.Until(b.deadline).Round(time.Second)
	fmt.Fprintf(b.progress, "peers: %s (%v left)\n", fmt.Sprintf(format, args...), left)
}

// obtain gets the programs of all systems. A system that cannot be had is left out.
func (b *bench) obtain(ctx context.Context, all []contestant) error {
	for _, c := range all {
		b.say("%s: looks for its programs", c.title)
		err := c.obtain(ctx, b.store)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			b.leaveOut(c, 0, err)
			continue
		}
		b.report.systems = append(b.report.systems, c)
	}
	return nil
}

func (b *bench) leaveOut(c contestant, round int, err error) {
	b.say("%s is left out: %v", c.title, err)
	b.report.Absent = append(b.report.Absent, absence{c.title, round, err.Error()})
}

// run measures all systems one at a time, in rounds: every other round is in the opposite order.
// What was measured until the time is over, or until ctx ends, is in the report.
func (b *bench) run(ctx context.Context) error {
	var longest time.Duration
	for round := 1; round <= b.rounds; round++ {
		if time.Until(b.deadline) < longest+longest/10 {
			b.say("no time for round %d of %d", round, b.rounds)
			return nil
		}
		began := time.Now()
		systems := slices.Clone(b.report.systems)
		if round%2 == 0 {
			slices.Reverse(systems)
		}
		for i, c := range systems {
			tell := func(format string, args ...any) {
				b.say("round %d of %d, system %d of %d: %s: %s", round, b.rounds, i+1, len(systems), c.title,
					fmt.Sprintf(format, args...))
			}
			quiet(ctx, tell)
			r, err := try(ctx, b.settings, c, b.dir, tell)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // what it measured before counts
				b.leaveOut(c, round, err)
			}
			if r.Round = round; len(r.Figures) > 0 {
				b.report.Results = append(b.report.Results, r)
			}
		}
		longest = max(longest, time.Since(began))
	}
	return nil
}

// quiet waits for a while until others leave the machine alone.
func quiet(ctx context.Context, tell func(string, ...any)) {
	const look, most, patience = 300 * time.Millisecond, 0.2, 15 * time.Second
	told := false
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, err := busy()
		if err != nil || loop.Sleep(ctx, look) != nil {
			return
		}
		after, _ := busy() // it could be read a moment ago
		if (after-before).Seconds()/look.Seconds() < most {
			return
		}
		if !told {
			tell("waits until the machine is quiet")
			told = true
		}
	}
}
