package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/process"
)

const (
	killTTL  = time.Second     // of the lock that a killed process held
	gapSpan  = 3 * time.Second // how long a survivor is watched
	gapAhead = 500 * time.Millisecond
)

// measureFailover ends processes that hold a lock, raft leaders and followers in turn: by SIGKILL (as
// the kernel does when memory is short), by a panic, by os.Exit, and as planned by Cluster.Close. The
// gap is the longest time without an answer that one caller on a survivor saw.
func measureFailover(ctx context.Context, s settings, out *lines) error {
	f, err := newFleet(ctx, s, kindHoldfast, true)
	if err != nil {
		return err
	}
	defer f.stop()
	ends := []struct {
		name string
		of   func(*proc)
	}{{"Killed", func(p *proc) { p.Kill() }}, {"Panicked", dies(ctx, opPanic)}, {"Exited", dies(ctx, opExit)}, {"Closed", (*proc).stop}, {"Stopped", func(p *proc) { p.Freeze() }}}
	if !process.Freezes {
		ends = ends[:len(ends)-1]
	}
	for round := range s.failures {
		for _, role := range []string{roleLeader, roleFollower} {
			for _, end := range ends {
				gap, over, err := strike(ctx, f, role, fmt.Sprintf("bench/%s/%d/%s", end.name, round, role), end.of)
				if err != nil {
					return err
				}
				out.add(end.name+"/role="+role, 1, figure{gap.Seconds(), "gap-sec"}, figure{over.Seconds(), "past-ttl-sec"})
			}
		}
	}
	return nil
}

// dies ends a process from within, and waits for its end.
func dies(ctx context.Context, op string) func(*proc) {
	return func(p *proc) {
		_, _ = p.ask(ctx, order{Op: op}) // it answers no more
		<-p.Done()
	}
}

// strike ends the process of a role, which holds a lock, and starts it again. It returns the gap
// and how long after a TTL from the end a waiter had the holder's lock: never later than that
// after its expiry.
func strike(ctx context.Context, f *fleet, role, name string, end func(*proc)) (gap, late time.Duration, err error) {
	victim, err := f.find(ctx, role)
	if err != nil {
		return 0, 0, err
	}
	if _, err := victim.ask(ctx, order{Op: "take", What: name, Span: killTTL}); err != nil {
		return 0, 0, err
	}
	var watched []func() (answer, error)
	var waiting *proc
	for _, p := range f.procs {
		if p != victim {
			watched = append(watched, p.begin(ctx, order{Op: "load", What: opPair, Count: 1, Span: gapSpan}))
			waiting = p
		}
	}
	waiter := waiting.begin(ctx, order{Op: "take", What: name, Span: killTTL})
	if err := loop.Sleep(ctx, gapAhead); err != nil {
		return 0, 0, err
	}
	killed := time.Now().UnixNano()
	end(victim)
	granted, err := waiter()
	if err != nil {
		return 0, 0, err
	}
	for _, wait := range watched {
		a, err := wait()
		if err != nil {
			return 0, 0, err
		}
		for i := 1; i < len(a.Stamps); i++ {
			if a.Stamps[i] > killed {
				gap = max(gap, time.Duration(a.Stamps[i]-a.Stamps[i-1]))
			}
		}
	}
	victim.Kill() // one that was stopped
	i := slices.Index(f.procs, victim)
	if f.procs[i], err = launch(victim.startup); err != nil {
		return 0, 0, err
	}
	return gap, time.Duration(granted.At-killed) - killTTL, f.ready(ctx)
}
