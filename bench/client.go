package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/chart"
)

// measureClient is what a client costs, beside the nodes of the fleet that serves it: each of three
// clients hangs on another node.
func measureClient(ctx context.Context, s settings, out *lines) error {
	f, err := newFleet(ctx, s, kindHoldfast, false)
	if err != nil {
		return err
	}
	defer f.stop()
	c := &crowd{settings: s, lines: out, fleet: f, clients: &fleet{}}
	defer c.clients.stop()
	for _, p := range f.procs {
		a, err := p.ask(ctx, order{Op: "role"})
		if err != nil {
			return err
		}
		client, err := launch(startup{Kind: kindClient, Addrs: []string{a.Addr}})
		if err != nil {
			return err
		}
		c.clients.procs = append(c.clients.procs, client)
	}
	if err := c.clients.ready(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{{"idle", c.idle}, {"pair", c.pairs}, {"hand-over", c.handOver}} {
		if s.wants("client/" + step.name) {
			err = errors.Join(err, step.run(ctx))
		}
	}
	return err
}

// crowd is a fleet with clients. Client i hangs on node i.
type crowd struct {
	settings
	*lines
	fleet, clients *fleet
}

// idle is what a client takes at rest, over a program that links the library and does not use it:
// without a session, and with one.
func (c *crowd) idle(ctx context.Context) error {
	empty, err := launch(startup{Kind: kindNothing})
	if err != nil {
		return err
	}
	defer empty.stop()
	base, err := empty.ask(ctx, order{Op: "usage", What: "collect"})
	if err != nil {
		return err
	}
	client := c.clients.procs[0]
	for _, x := range []struct {
		sessions string
		locks    int
	}{{"0", 0}, {"1", 1}} {
		if x.locks > 0 {
			if _, err := client.ask(ctx, order{Op: "hold", Count: x.locks}); err != nil {
				return err
			}
		}
		_, cores, err := watch(ctx, client, c.settings.idle)
		if err != nil {
			return err
		}
		a, err := client.ask(ctx, order{Op: "usage", What: "collect"})
		if err != nil {
			return err
		}
		used := a.Figures
		c.add("ClientIdle/sessions="+x.sessions, 1, figure{cores, "cores"}, figure{float64(used.Goroutines), "goroutines"},
			figure{float64(used.Engine), "engine-goroutines"}, figure{float64(used.Sockets), "connections"},
			figure{float64(used.Resident - base.Figures.Resident), "resident-B"})
	}
	return nil
}

// pairs is the latency of one caller on a follower, and on a client of that follower.
func (c *crowd) pairs(ctx context.Context) error {
	var ratios []float64
	for range c.rounds {
		follower, err := c.fleet.find(ctx, roleFollower)
		if err != nil {
			return err
		}
		client := c.clients.procs[slices.Index(c.fleet.procs, follower)]
		var medians []float64
		for _, x := range []struct {
			on string
			p  *proc
		}{{roleFollower, follower}, {"client", client}} {
			a, err := x.p.ask(ctx, order{Op: "load", What: opPair, Count: 1, Span: c.span})
			if err != nil {
				return err
			}
			figures := spread(a.Times)
			c.add("ClientPair/on="+x.on, len(a.Times), figures...)
			medians = append(medians, figures[0].value)
		}
		ratios = append(ratios, medians[1]/medians[0])
	}
	c.ratio("ClientPairRatio", ratios)
	return nil
}

// ratio prints the median of the ratios of the rounds.
func (c *crowd) ratio(name string, ratios []float64) {
	c.add(name, len(ratios), figure{chart.Quantile(ratios, 0.5), "ratio"})
}

// handOver is that of a lock which one caller on each node wants, and one on each client.
func (c *crowd) handOver(ctx context.Context) error {
	var ratios []float64
	for range c.rounds {
		var took []time.Duration
		for _, x := range []struct {
			between string
			procs   []*proc
		}{{"nodes", c.fleet.procs}, {"clients", c.clients.procs}} {
			d, err := contend(ctx, x.procs, order{Op: "contend", What: "bench/contended/" + x.between, Count: 1, Span: c.span, Hold: 3 * time.Millisecond})
			if err != nil {
				return err
			}
			c.add("ClientHandOver/between="+x.between, 1, figure{d.Seconds(), unitTime})
			took = append(took, d)
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	c.ratio("ClientHandOverRatio", ratios)
	return nil
}
