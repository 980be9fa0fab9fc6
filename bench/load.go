package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
)

type duel struct {
	settings
	*lines
	data             string // disk or memory
	holdfast, engine *fleet
}

func measureLoad(ctx context.Context, s settings, out *lines, onDisk bool) (err error) {
	d := &duel{settings: s, lines: out, data: "memory"}
	if onDisk {
		d.data = "disk"
	}
	if d.holdfast, err = newFleet(ctx, s, kindHoldfast, onDisk); err != nil {
		return err
	}
	defer d.holdfast.stop()
	if d.engine, err = newFleet(ctx, s, kindEngine, onDisk); err != nil {
		return err
	}
	defer d.engine.stop()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"latency", d.voters}, {"hand-over", d.handOver}, {"throughput", d.throughput}, {"spread", d.everywhere},
		{"pressure", d.pressure}, {"standby", d.standby},
	} {
		if !s.wants(d.data + "/" + step.name) {
			continue
		}
		if err := d.warm(ctx); err != nil {
			return err
		}
		before, _ := d.holdfast.term(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		after, err := d.holdfast.term(ctx)
		if err != nil {
			return err
		}
		d.add(d.name("LeadersLost", kindHoldfast, "during="+step.name), 1, figure{float64(after - before), "raft-leaders"})
	}
	return nil
}

func (d *duel) name(what, kind string, how ...string) string {
	return strings.Join(append([]string{what, "data=" + d.data}, append(how, "of="+kind)...), "/")
}

func (d *duel) both(do func(f *fleet, op string) error, pair, single string) error {
	if err := do(d.holdfast, pair); err != nil {
		return err
	}
	return do(d.engine, single)
}

func (d *duel) warm(ctx context.Context) error {
	return d.both(func(f *fleet, op string) error {
		_, err := f.load(ctx, roleLeader, op, 64, d.span/2)
		return err
	}, opPair, opWrite)
}

func (d *duel) voters(ctx context.Context) error {
	return errors.Join(d.caller(ctx, roleLeader), d.caller(ctx, roleFollower))
}

func (d *duel) standby(ctx context.Context) error {
	if err := errors.Join(d.holdfast.follow(ctx), d.engine.follow(ctx)); err != nil {
		return err
	}
	return d.caller(ctx, roleStandby)
}

// caller measures the latency of one caller: of a pair beside one proposal of the engine (it makes
// two), and of Verify beside a ReadIndex.
func (d *duel) caller(ctx context.Context, role string) error {
	for range d.rounds {
		for _, x := range []struct{ name, ours, theirs string }{{"Pair", opPair, opWrite}, {"Verify", opVerify, opRead}} {
			err := d.both(func(f *fleet, op string) error {
				a, err := f.load(ctx, role, op, 1, d.span)
				if err != nil {
					return err
				}
				d.add(d.name(x.name, f.kind, "on="+role), len(a.Times), spread(a.Times)...)
				return ctx.Err()
			}, x.ours, x.theirs)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// throughput is that of callers on the raft leader's node, and the processor time of all nodes that
// it takes.
func (d *duel) throughput(ctx context.Context) error {
	for _, callers := range []int{1, 16, 64, 256, 1024} {
		for range d.rounds {
			err := d.both(func(f *fleet, op string) error {
				before, err := f.cpu(ctx)
				if err != nil {
					return err
				}
				a, err := f.load(ctx, roleLeader, op, callers, d.span)
				if err != nil {
					return err
				}
				after, err := f.cpu(ctx)
				n := float64(max(1, len(a.Times)))
				d.add(d.name("Callers", f.kind, fmt.Sprint("callers=", callers)), len(a.Times), append(spread(a.Times),
					figure{n / a.Took.Seconds(), "op/s"}, figure{(after - before).Seconds() / n, unitCPU})...)
				return err
			}, opPair, opWrite)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *duel) everywhere(ctx context.Context) error {
	for _, callers := range []int{64, 256} {
		for range d.rounds {
			err := d.both(func(f *fleet, op string) error {
				rate, err := f.loadAll(ctx, op, callers, d.span)
				d.add(d.name("CallersOnThreeNodes", f.kind, fmt.Sprint("callers=", callers)), 1, figure{rate, "op/s"})
				return err
			}, opPair, opWrite)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) loadAll(ctx context.Context, what string, callers int, span time.Duration) (rate float64, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, p := range f.procs {
		n := (callers + i) / len(f.procs)
		all.Go(func() {
			a, e := p.ask(ctx, order{Op: "load", What: what, Count: n, Span: span})
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			if e == nil {
				rate += float64(len(a.Times)) / a.Took.Seconds()
			}
		})
	}
	all.Wait()
	return rate, err
}

// handOver is the time from the start of a Release until the next waiter's Acquire has returned,
// beside a proposal of the engine: with one contender on each of three nodes, and with three on the
// raft leader's. A holder that works a little leaves an idle fleet behind, which is slower to wake,
// as is the engine after a pause.
func (d *duel) handOver(ctx context.Context) error {
	for waiters, work := range map[string]time.Duration{"ready": 3 * time.Millisecond, "back-to-back": 0} {
		for round := range d.rounds {
			o := order{Op: "contend", What: fmt.Sprintf("bench/contended/%d/%v", round, work), Count: 1, Span: d.span, Hold: work}
			across, err := contend(ctx, d.holdfast.procs, o)
			if err != nil {
				return err
			}
			leader, err := d.holdfast.find(ctx, roleLeader)
			if err != nil {
				return err
			}
			o.What, o.Count = o.What+"/local", 3
			within, err := contend(ctx, []*proc{leader}, o)
			if err != nil {
				return err
			}
			lead, follow, err := d.proposal(ctx, work)
			if err != nil {
				return err
			}
			for _, x := range []struct {
				contenders, kind string
				took             time.Duration
			}{
				{"three-nodes", kindHoldfast, across}, {"three-nodes", kindEngine, (lead + 2*follow) / 3}, // the contenders' nodes
				{"raft-leader", kindHoldfast, within}, {"raft-leader", kindEngine, lead},
			} {
				d.add(d.name("HandOver", x.kind, "contenders="+x.contenders, "waiters="+waiters), 1, figure{x.took.Seconds(), unitTime})
			}
		}
	}
	return nil
}

// pressure is full load while all nodes' processes produce garbage: the raft leader must stay.
func (d *duel) pressure(ctx context.Context) error {
	span := 4 * d.span
	return d.both(func(f *fleet, op string) error {
		before, err := f.term(ctx)
		if err != nil {
			return err
		}
		var waits []func() (answer, error)
		for _, p := range f.procs {
			waits = append(waits, p.begin(ctx, order{Op: "garbage", Count: 2, Span: span}))
		}
		rate, err := f.loadAll(ctx, op, 256, span)
		for _, wait := range waits {
			_, e := wait()
			err = errors.Join(err, e)
		}
		after, e := f.term(ctx)
		d.add(d.name("AmongGarbage", f.kind), 1, figure{rate, "op/s"}, figure{float64(after - before), "raft-leaders"})
		return errors.Join(err, e)
	}, opPair, opWrite)
}

// proposal is the median time of the engine's proposals on the raft leader and on a follower, with
// a pause before each.
func (d *duel) proposal(ctx context.Context, pause time.Duration) (lead, follow time.Duration, err error) {
	for role, took := range map[string]*time.Duration{roleLeader: &lead, roleFollower: &follow} {
		p, err := d.engine.find(ctx, role)
		if err != nil {
			return 0, 0, err
		}
		a, err := p.ask(ctx, order{Op: "load", What: opWrite, Count: 1, Span: d.span / 2, Hold: pause})
		if err != nil {
			return 0, 0, err
		}
		*took = chart.Quantile(a.Times, 0.5)
	}
	return lead, follow, nil
}

func contend(ctx context.Context, procs []*proc, o order) (time.Duration, error) {
	var waits []func() (answer, error)
	for _, p := range procs {
		waits = append(waits, p.begin(ctx, o))
	}
	var turns []turn
	for _, wait := range waits {
		a, err := wait()
		if err != nil {
			return 0, err
		}
		turns = append(turns, a.Turns...)
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.Token, b.Token) })
	var times []time.Duration
	for i := 1; i < len(turns); i++ {
		if last, next := turns[i-1], turns[i]; next.Asked < last.Granted { // it waited already
			times = append(times, time.Duration(next.Granted-last.GivenBack))
		}
	}
	if len(times) == 0 {
		return 0, errors.New("no hand-over happened")
	}
	return chart.Quantile(times, 0.5), nil
}
