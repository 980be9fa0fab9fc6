package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// callerCounts are the numbers of callers of the throughput figures.
func callerCounts() []int { return []int{1, 16, 64, 256, 1024} }

// roles are those of the nodes that a single caller is measured on.
func roles() []string { return []string{roleLeader, roleFollower, roleStandby} }

// duel is the two fleets that take turns.
type duel struct {
	settings
	*report
	section          string
	holdfast, engine *fleet
}

// measureLoad measures what the two contestants do under load.
func measureLoad(ctx context.Context, s settings, r *report, onDisk bool) (err error) {
	d := &duel{settings: s, report: r, section: "memory"}
	if onDisk {
		d.section = "disk"
	}
	if d.holdfast, err = newFleet(ctx, s, kindHoldfast, onDisk); err != nil {
		return err
	}
	defer d.holdfast.stop()
	if d.engine, err = newFleet(ctx, s, kindEngine, onDisk); err != nil {
		return err
	}
	defer d.engine.stop()
	terms := make(map[*fleet]uint64)
	for f := range d.contestants("", "") {
		if terms[f], err = f.term(ctx); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"latency", d.voters}, {"hand-over", d.handOver}, {"throughput", d.throughput}, {"spread", d.spread},
		{"pressure", d.pressure}, {"profile", d.profile}, {"standby", d.standby},
	} {
		if !s.wants(d.section + "/" + step.name) {
			continue
		}
		if err := d.warm(ctx); err != nil {
			return err
		}
		before, _ := d.holdfast.term(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if after, _ := d.holdfast.term(ctx); after != before {
			fmt.Fprintf(os.Stderr, "bench: during %s/%s the term of holdfast went from %d to %d\n", d.section, step.name, before, after)
		}
	}
	for f := range d.contestants("", "") {
		term, err := f.term(ctx)
		if err != nil {
			return err
		}
		d.add(d.section, "raft leaders lost under load", f.kind, unitCount, float64(term-terms[f]))
	}
	return nil
}

// both lets the contestants take turns.
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

// voters measures one caller on the raft leader's node and on a follower.
func (d *duel) voters(ctx context.Context) error {
	return errors.Join(d.caller(ctx, roleLeader), d.caller(ctx, roleFollower))
}

// standby measures one caller on a fourth process.
func (d *duel) standby(ctx context.Context) error {
	for f := range d.contestants("", "") {
		if err := f.follow(ctx); err != nil {
			return err
		}
	}
	return d.caller(ctx, roleStandby)
}

// caller measures the latency of one caller.
func (d *duel) caller(ctx context.Context, role string) error {
	if err := d.one(ctx, role, opPair, opWrite, "acquire+release", "proposal"); err != nil {
		return err
	}
	return d.one(ctx, role, opVerify, opRead, "Verify", "ReadIndex")
}

// one measures one caller: the median over rounds of p50, and p99 and p99.9 of all rounds together.
func (d *duel) one(ctx context.Context, role, pair, single, pairName, singleName string) error {
	medians, all := make(map[*fleet][]float64), make(map[*fleet][]time.Duration)
	for range d.rounds {
		err := d.both(func(f *fleet, op string) error {
			a, err := f.load(ctx, role, op, 1, d.span)
			if err != nil || len(a.Times) == 0 {
				return errors.Join(err, ctx.Err())
			}
			slices.Sort(a.Times)
			medians[f] = append(medians[f], float64(quantile(a.Times, 0.5)))
			all[f] = append(all[f], a.Times...)
			return nil
		}, pair, single)
		if err != nil {
			return err
		}
	}
	d.compare(d.section, pairName+" over "+singleName+", "+role, medians[d.holdfast], medians[d.engine])
	for f, name := range d.contestants(pairName, singleName) {
		slices.Sort(all[f])
		d.add(d.section, name+" p50, "+role, f.kind, unitNanos, medians[f]...)
		d.add(d.section, name+" p99, "+role, f.kind, unitNanos, float64(quantile(all[f], 0.99)))
		d.add(d.section, name+" p99.9, "+role, f.kind, unitNanos, float64(quantile(all[f], 0.999)))
	}
	return nil
}

// contestants goes over the two fleets, Holdfast first, with a name for each.
func (d *duel) contestants(holdfast, engine string) func(func(*fleet, string) bool) {
	return func(yield func(*fleet, string) bool) {
		if yield(d.holdfast, holdfast) {
			yield(d.engine, engine)
		}
	}
}

// throughput is that of callers on the raft leader's node, and the processor time of all nodes that
// it takes.
func (d *duel) throughput(ctx context.Context) error {
	for _, callers := range callerCounts() {
		rates, tails, costs := make(map[*fleet][]float64), make(map[*fleet][]float64), make(map[*fleet][]float64)
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
				slices.Sort(a.Times)
				n := float64(max(1, len(a.Times)))
				rates[f] = append(rates[f], n/a.Took.Seconds())
				tails[f] = append(tails[f], float64(quantile(a.Times, 0.99)))
				costs[f] = append(costs[f], float64(after-before)/n)
				return err
			}, opPair, opWrite)
			if err != nil {
				return err
			}
		}
		d.compare(d.section, fmt.Sprintf("pairs over proposals, %d callers", callers), rates[d.holdfast], rates[d.engine])
		for f, name := range d.contestants("pair", "proposal") {
			d.add(d.section, fmt.Sprintf("%ss, %d callers", name, callers), f.kind, unitRate, rates[f]...)
			d.add(d.section, fmt.Sprintf("%ss p99, %d callers", name, callers), f.kind, unitNanos, tails[f]...)
			d.add(d.section, fmt.Sprintf("processor time of a %s, %d callers", name, callers), f.kind, unitNanos, costs[f]...)
		}
	}
	return nil
}

// spread is the throughput of callers on all three voters.
func (d *duel) spread(ctx context.Context) error {
	for _, callers := range []int{64, 256} {
		rates := make(map[*fleet][]float64)
		for range d.rounds {
			err := d.both(func(f *fleet, op string) error {
				rate, err := f.loadAll(ctx, op, callers, d.span)
				rates[f] = append(rates[f], rate)
				return err
			}, opPair, opWrite)
			if err != nil {
				return err
			}
		}
		d.compare(d.section, fmt.Sprintf("pairs over proposals, %d callers on 3 nodes", callers), rates[d.holdfast], rates[d.engine])
		for f, name := range d.contestants("pairs", "proposals") {
			d.add(d.section, fmt.Sprintf("%s, %d callers on 3 nodes", name, callers), f.kind, unitRate, rates[f]...)
		}
	}
	return nil
}

// loadAll shares callers among all nodes and returns the rate of them all.
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
	for name, work := range map[string]time.Duration{"waiters ready": 3 * time.Millisecond, "back to back": 0} {
		var across, within, proposals, leads []float64
		for round := range d.rounds {
			o := order{Op: "contend", What: fmt.Sprintf("bench/contended/%d/%v", round, work), Count: 1, Span: d.span, Hold: work}
			x, err := contend(ctx, d.holdfast.procs, o)
			if err != nil {
				return err
			}
			leader, err := d.holdfast.find(ctx, roleLeader)
			if err != nil {
				return err
			}
			o.What, o.Count = o.What+"/local", 3
			y, err := contend(ctx, []*proc{leader}, o)
			if err != nil {
				return err
			}
			lead, follow, err := d.proposal(ctx, work)
			if err != nil {
				return err
			}
			across, within, leads = append(across, x), append(within, y), append(leads, lead)
			proposals = append(proposals, (lead+2*follow)/3) // the contenders' nodes
		}
		d.add(d.section, "hand-over p50, between 3 nodes, "+name, kindHoldfast, unitNanos, across...)
		d.add(d.section, "hand-over p50, on the raft leader, "+name, kindHoldfast, unitNanos, within...)
		d.compare(d.section, "hand-over over proposal, between 3 nodes, "+name, across, proposals)
		d.compare(d.section, "hand-over over proposal, on the raft leader, "+name, within, leads)
	}
	return nil
}

// pressure is full load while all nodes' processes produce garbage: the raft leader must stay.
func (d *duel) pressure(ctx context.Context) error {
	span := 4 * d.span
	for f, op := range d.contestants(opPair, opWrite) {
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
		if err := errors.Join(err, e); err != nil {
			return err
		}
		d.add(d.section, op+"s among garbage, 256 callers on 3 nodes", f.kind, unitRate, rate)
		d.add(d.section, "raft leaders lost among garbage", f.kind, unitCount, float64(after-before))
	}
	return nil
}

// proposal is the median time of the engine's proposals on the raft leader and on a follower, with
// a pause before each.
func (d *duel) proposal(ctx context.Context, pause time.Duration) (lead, follow float64, err error) {
	for _, x := range []struct {
		role string
		time *float64
	}{{roleLeader, &lead}, {roleFollower, &follow}} {
		p, err := d.engine.find(ctx, x.role)
		if err != nil {
			return 0, 0, err
		}
		a, err := p.ask(ctx, order{Op: "load", What: opWrite, Count: 1, Span: d.span / 2, Hold: pause})
		if err != nil {
			return 0, 0, err
		}
		slices.Sort(a.Times)
		*x.time = float64(quantile(a.Times, 0.5))
	}
	return lead, follow, nil
}

// contend returns the median time of a hand-over.
func contend(ctx context.Context, procs []*proc, o order) (float64, error) {
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
	var times []float64
	for i := 1; i < len(turns); i++ {
		if last, next := turns[i-1], turns[i]; next.Asked < last.Granted { // it waited already
			times = append(times, float64(next.Granted-last.GivenBack))
		}
	}
	if len(times) == 0 {
		return 0, errors.New("no hand-over happened")
	}
	slices.Sort(times)
	return quantile(times, 0.5), nil
}

// profile takes profiles of the raft leader and of a follower of both contestants under load.
func (d *duel) profile(ctx context.Context) error {
	if d.profiles == "" {
		return nil
	}
	span := max(10*time.Second, 10*d.span)
	return d.both(func(f *fleet, op string) error {
		for _, callers := range []int{1, 64, 256} {
			var taken []func() (answer, error)
			for _, role := range []string{roleLeader, roleFollower} {
				p, err := f.find(ctx, role)
				if err != nil {
					return err
				}
				name := fmt.Sprintf("%s-%s-%d-%s-", d.section, f.kind, callers, strings.ReplaceAll(role, " ", "-"))
				taken = append(taken, p.begin(ctx, order{Op: "profile", What: filepath.Join(d.profiles, name), Span: span}))
			}
			if _, err := f.load(ctx, roleLeader, op, callers, span); err != nil {
				return err
			}
			for _, wait := range taken {
				if _, err := wait(); err != nil {
					return err
				}
			}
		}
		return nil
	}, opPair, opWrite)
}
