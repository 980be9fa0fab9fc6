package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// besideCallers make pairs beside what is measured: enough for a snapshot every few seconds.
const besideCallers = 16

// measureMillion measures what pairs take on the raft leader's node beside a million locks that
// another holds: in an empty group, with snapshots of all the locks, which come by themselves,
// while a third node lists them again and again, and while that is killed, comes back and catches
// up.
func measureMillion(ctx context.Context, s settings, r *report) error {
	f, err := newFleet(ctx, s, kindHoldfast, true)
	if err != nil {
		return err
	}
	defer f.stop()
	holder, err := f.find(ctx, roleFollower)
	if err != nil {
		return err
	}
	leader, err := f.find(ctx, roleLeader)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(f.procs, func(p *proc) bool { return p != holder && p != leader })
	span := 5 * s.span
	calm := 0.0
	beside := func(what string) error {
		before, err := f.term(ctx)
		if err != nil {
			return err
		}
		a, err := leader.ask(ctx, order{Op: "load", What: opPair, Count: besideCallers, Span: span})
		if err != nil {
			return err
		}
		slices.Sort(a.Times)
		p99 := float64(quantile(a.Times, 0.99))
		if calm == 0 {
			calm = p99
		}
		r.add("million", "pair p50, "+what, kindHoldfast, unitNanos, float64(quantile(a.Times, 0.5)))
		r.add("million", "pair p99, "+what, kindHoldfast, unitNanos, p99)
		r.add("million", "longest pair, "+what, kindHoldfast, unitNanos, float64(a.Times[len(a.Times)-1]))
		r.add("million", "pair p99 over calm, "+what, whoRatio, unitRatio, p99/calm)
		after, err := f.term(ctx)
		r.add("million", "raft leaders lost, "+what, kindHoldfast, unitCount, float64(after-before))
		return err
	}
	if err := beside("an empty group"); err != nil {
		return err
	}
	if _, err := holder.ask(ctx, order{Op: "hold", Count: s.million, Timeout: 10 * time.Minute}); err != nil {
		return err
	}
	if err := beside(fmt.Sprintf("%d held locks", s.million)); err != nil {
		return err
	}
	for _, other := range []struct{ op, what string }{
		{"spin", "a processor busy meanwhile"}, // as it is by the one that lists: all are on one machine
		{"list", "locks listed meanwhile"},
	} {
		done := f.procs[at].begin(ctx, order{Op: other.op, Span: span})
		err = beside(other.what)
		if _, e := done(); e != nil || err != nil {
			return errors.Join(e, err)
		}
	}
	f.procs[at].Kill()
	if f.procs[at], err = launch(f.procs[at].startup); err != nil {
		return err
	}
	if err := beside("a replica that comes back"); err != nil {
		return err
	}
	return f.ready(ctx)
}
