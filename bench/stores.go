package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// measureStores compares the two log stores that the engine has, under the engine alone: pebble,
// which Holdfast uses, and tan. Both with one fsync for each commit.
func measureStores(ctx context.Context, s settings, r *report) (err error) {
	const section = "stores"
	kinds := []string{kindEngine, kindTan}
	fleets := make(map[string]*fleet)
	for _, kind := range kinds {
		if fleets[kind], err = newFleet(ctx, s, kind, true); err != nil {
			return err
		}
		defer fleets[kind].stop()
	}
	for _, callers := range []int{1, 64, 256} {
		rates, medians, tails, costs := series{}, series{}, series{}, series{}
		for range s.rounds {
			for _, kind := range kinds {
				f := fleets[kind]
				before, err := f.cpu(ctx)
				if err != nil {
					return err
				}
				a, err := f.load(ctx, roleLeader, opWrite, callers, s.span)
				if err != nil {
					return err
				}
				after, err := f.cpu(ctx)
				if err != nil {
					return err
				}
				slices.Sort(a.Times)
				n := float64(max(1, len(a.Times)))
				rates.note(kind, n/a.Took.Seconds())
				medians.note(kind, float64(quantile(a.Times, 0.5)))
				tails.note(kind, float64(quantile(a.Times, 0.99)))
				costs.note(kind, float64(after-before)/n)
			}
		}
		r.compare(section, fmt.Sprintf("proposals of tan over pebble, %d callers", callers), rates[kindTan], rates[kindEngine])
		for _, kind := range kinds {
			r.add(section, fmt.Sprintf("proposals, %d callers", callers), kind, unitRate, rates[kind]...)
			r.add(section, fmt.Sprintf("proposal p50, %d callers", callers), kind, unitNanos, medians[kind]...)
			r.add(section, fmt.Sprintf("proposal p99, %d callers", callers), kind, unitNanos, tails[kind]...)
			r.add(section, fmt.Sprintf("processor time of a proposal, %d callers", callers), kind, unitNanos, costs[kind]...)
		}
	}
	for _, kind := range kinds {
		if err := storeFootprint(ctx, s, r, fleets[kind]); err != nil {
			return err
		}
	}
	return nil
}

// series is figures of several contestants.
type series map[string][]float64

func (s series) note(who string, v float64) { s[who] = append(s[who], v) }

// storeFootprint measures what a follower uses, and how long it takes to start again with a log of
// some thousand entries, in which it has to look for what it has not applied.
func storeFootprint(ctx context.Context, s settings, r *report, f *fleet) error {
	const section = "stores"
	follower, err := f.find(ctx, roleFollower)
	if err != nil {
		return err
	}
	used, err := follower.ask(ctx, order{Op: "usage", What: "collect"})
	if err != nil {
		return err
	}
	r.add(section, "goroutines", f.kind, unitCount, float64(used.Figures.Goroutines))
	r.add(section, "descriptors", f.kind, unitCount, float64(used.Figures.Descriptors))
	r.add(section, "heap", f.kind, unitBytes, float64(used.Figures.Heap))
	r.add(section, "memory", f.kind, unitBytes, float64(used.Figures.Resident))
	size, err := dirSize(follower.startup.DataDir)
	if err != nil {
		return err
	}
	r.add(section, "data directory", f.kind, unitBytes, float64(size))
	var starts []float64
	for range s.opens {
		i := slices.Index(f.procs, follower)
		follower.stop()
		if follower, err = launch(follower.startup); err != nil {
			return err
		}
		f.procs[i] = follower
		a, err := follower.ask(ctx, order{Op: "opened"})
		if err != nil {
			return err
		}
		starts = append(starts, float64(a.Took))
		leader, err := f.find(ctx, roleLeader)
		if err != nil {
			return err
		}
		if _, err := leader.ask(ctx, order{Op: "load", What: opWrite, Count: 16, Span: 100 * time.Millisecond}); err != nil {
			return err
		}
	}
	r.add(section, "start of a follower to its first read", f.kind, unitNanos, starts...)
	return nil
}

// dirSize is the space that a directory takes on the disk.
func dirSize(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store removes files while we look
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += allocated(info)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
