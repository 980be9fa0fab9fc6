package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// measureValid measures the local look at a lease.
func measureValid(ctx context.Context, _ settings, r *report) error {
	c, err := holdfast.Open(ctx, holdfast.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := c.Acquire(ctx, "bench")
	if err != nil {
		return err
	}
	valid := func() { _ = l.Valid() }
	r.add("valid", "Valid, quickest of rounds", kindHoldfast, unitNanos, quickest(valid))
	r.add("valid", "time.Now, which Valid contains", "Go", unitNanos, quickest(func() { _ = time.Now() }))
	r.add("valid", "Valid allocations", kindHoldfast, unitCount, testing.AllocsPerRun(1000, valid))
	return l.Err()
}

// quickest is the time of a call in the best of many rounds: what other processes take from it is
// left out.
func quickest(call func()) float64 {
	const rounds, calls = 50, 200_000
	best := time.Duration(math.MaxInt64)
	for range rounds {
		began := time.Now()
		for range calls {
			call()
		}
		best = min(best, time.Since(began))
	}
	return float64(best) / calls
}

// measureOpen measures a single node from before Open to Ready, each in a process of its own.
func measureOpen(ctx context.Context, s settings, r *report) error {
	var memory, disk, again []float64
	open := func(dir string) (float64, error) {
		p, err := launch(startup{Kind: kindHoldfast, DataDir: dir})
		if err != nil {
			return 0, err
		}
		defer p.stop()
		a, err := p.ask(ctx, order{Op: "opened"})
		return float64(a.Took), err
	}
	for i := range s.opens {
		dir := filepath.Join(s.data, fmt.Sprint("open-", i))
		for _, x := range []struct {
			times *[]float64
			dir   string
		}{{&memory, ""}, {&disk, dir}, {&again, dir}} {
			took, err := open(x.dir)
			if err != nil {
				return err
			}
			*x.times = append(*x.times, took)
		}
	}
	r.add("open", "Open to Ready, single node in memory", kindHoldfast, unitNanos, memory...)
	r.add("open", "Open to Ready, single node on disk", kindHoldfast, unitNanos, disk...)
	r.add("open", "Open to Ready, single node, again", kindHoldfast, unitNanos, again...)
	return nil
}

// measureIdle measures what a node uses that has nothing to do, and what held locks cost.
func measureIdle(ctx context.Context, s settings, r *report) error {
	f, err := newFleet(ctx, s, kindHoldfast, true)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := footprint(ctx, s, r, f); err != nil {
		return err
	}
	return keepalive(ctx, s, r, f)
}

// footprint measures the three nodes, which hold nothing.
func footprint(ctx context.Context, s settings, r *report, f *fleet) error {
	empty, err := emptyProgram(ctx, s)
	if err != nil {
		return err
	}
	for _, role := range []string{roleLeader, roleFollower} {
		p, err := f.find(ctx, role)
		if err != nil {
			return err
		}
		before, after, err := watch(ctx, p, s.idle)
		if err != nil {
			return err
		}
		r.add("idle", "goroutines, "+role, kindHoldfast, unitCount, float64(after.Goroutines))
		r.add("idle", "descriptors, "+role, kindHoldfast, unitCount, float64(after.Descriptors))
		r.add("idle", "memory over an empty program, "+role, kindHoldfast, unitBytes, float64(before.Resident-empty))
		r.add("idle", "processor, "+role, kindHoldfast, unitPercent, percent(before, after, s.idle))
	}
	return nil
}

func percent(before, after usage, span time.Duration) float64 {
	return 100 * (after.CPU - before.CPU).Seconds() / span.Seconds()
}

// watch returns what a process used before and after a time of nothing.
func watch(ctx context.Context, p *proc, span time.Duration) (before, after usage, err error) {
	a, err := p.ask(ctx, order{Op: "usage"})
	if err != nil {
		return before, after, err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return before, after, ctx.Err()
	}
	b, err := p.ask(ctx, order{Op: "usage"})
	return a.Figures, b.Figures, err
}

// emptyProgram returns the resident memory of a Go program that only waits for the end of its
// input.
func emptyProgram(ctx context.Context, s settings) (int64, error) {
	bin := filepath.Join(s.data, "empty-program")
	dir := filepath.Join(s.data, "empty-source")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	const text = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdin.Read(make([]byte, 1)) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		return 0, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, filepath.Join(dir, "main.go"))
	if said, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building an empty program: %w: %s", err, said)
	}
	cmd := exec.CommandContext(ctx, bin)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { stdin.Close(); _ = cmd.Wait() }()
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var pages, resident int64
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(statm), &pages, &resident)
	}
	return resident * int64(os.Getpagesize()), err
}

// keepalive measures an idle holder, and the memory that its locks use there and on a replica.
func keepalive(ctx context.Context, s settings, r *report, f *fleet) error {
	holder, err := f.find(ctx, roleFollower)
	if err != nil {
		return err
	}
	replica, err := f.find(ctx, roleLeader)
	if err != nil {
		return err
	}
	heaps := func() (int64, int64, error) {
		a, err := holder.ask(ctx, order{Op: "usage", What: "collect"})
		if err != nil {
			return 0, 0, err
		}
		b, err := replica.ask(ctx, order{Op: "usage", What: "collect"})
		return a.Figures.Heap, b.Figures.Heap, err
	}
	holderBefore, replicaBefore, err := heaps()
	if err != nil {
		return err
	}
	for _, count := range []int{1, 1000, s.locks} {
		if _, err := holder.ask(ctx, order{Op: "hold", Count: count, Timeout: 5 * time.Minute}); err != nil {
			return err
		}
		if count == s.locks {
			holderAfter, replicaAfter, err := heaps()
			if err != nil {
				return err
			}
			r.add("idle", "bytes per held lock, replica", kindHoldfast, unitBytes, float64(replicaAfter-replicaBefore)/float64(count))
			r.add("idle", "bytes per held lock, holder", kindHoldfast, unitBytes, float64(holderAfter-holderBefore)/float64(count))
		}
		before, after, err := watch(ctx, holder, s.idle)
		if err != nil {
			return err
		}
		r.add("idle", fmt.Sprintf("processor, holder of %d", count), kindHoldfast, unitPercent, percent(before, after, s.idle))
	}
	return nil
}
