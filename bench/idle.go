package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
)

func measureOpen(ctx context.Context, s settings, out *lines) error {
	for i := range s.opens {
		dir := filepath.Join(s.data, fmt.Sprint("open-", i))
		for _, x := range []struct{ data, dir string }{{"memory", ""}, {"disk", dir}, {"disk-again", dir}} {
			p, err := launch(startup{Kind: kindHoldfast, DataDir: x.dir})
			if err != nil {
				return err
			}
			a, err := p.ask(ctx, order{Op: "opened"})
			p.stop()
			if err != nil {
				return err
			}
			out.add("OpenToReady/data="+x.data, 1, figure{a.Took.Seconds(), unitTime})
		}
	}
	return nil
}

func measureIdle(ctx context.Context, s settings, out *lines) error {
	f, err := newFleet(ctx, s, kindHoldfast, true)
	if err != nil {
		return err
	}
	defer f.stop()
	for _, role := range []string{roleLeader, roleFollower} {
		p, err := f.find(ctx, role)
		if err != nil {
			return err
		}
		used, cores, err := watch(ctx, p, s.idle)
		if err != nil {
			return err
		}
		out.add("Idle/on="+role, 1, figure{cores, "cores"}, figure{float64(used.Goroutines), "goroutines"},
			figure{float64(used.Descriptors), "descriptors"}, figure{float64(used.Resident), "resident-B"})
	}
	return keepalive(ctx, s, out, f)
}

func watch(ctx context.Context, p *proc, span time.Duration) (used usage, cores float64, err error) {
	before, err := p.ask(ctx, order{Op: "usage"})
	if err != nil {
		return used, 0, err
	}
	if err := loop.Sleep(ctx, span); err != nil {
		return used, 0, err
	}
	after, err := p.ask(ctx, order{Op: "usage"})
	return after.Figures, (after.Figures.CPU - before.Figures.CPU).Seconds() / span.Seconds(), err
}

func keepalive(ctx context.Context, s settings, out *lines, f *fleet) error {
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
		_, cores, err := watch(ctx, holder, s.idle)
		if err != nil {
			return err
		}
		figures := []figure{{cores, "cores"}}
		if count == s.locks {
			holderAfter, replicaAfter, err := heaps()
			if err != nil {
				return err
			}
			figures = append(figures, figure{float64(replicaAfter-replicaBefore) / float64(count), "replica-B/lock"},
				figure{float64(holderAfter-holderBefore) / float64(count), "holder-B/lock"})
		}
		out.add(fmt.Sprintf("Held/locks=%d", count), 1, figures...)
	}
	return nil
}
