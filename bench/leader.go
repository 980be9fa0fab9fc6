package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
)

// measureLeader measures what a fleet costs its raft leader as the fleet grows: five processes hold a
// replica, and all other nodes are clients in this process. Last it kills the raft leader of the largest
// fleet under clients that hold locks.
func measureLeader(ctx context.Context, s settings, out *lines) error {
	for round := range s.rounds {
		for i, size := range s.leaders {
			if err := leaderOf(ctx, s, out, size, round == s.rounds-1 && i == len(s.leaders)-1); err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
		}
	}
	return nil
}

// leaderOf measures one fleet.
func leaderOf(ctx context.Context, s settings, out *lines, size int, kill bool) error {
	f, err := newFleet(ctx, s, kindHoldfast, false)
	if err != nil {
		return err
	}
	defer f.stop()
	for len(f.procs) < scaleReplicas {
		if err := f.add(); err != nil {
			return err
		}
	}
	if err := f.ready(ctx); err != nil {
		return err
	}
	name := func(what string) string { return fmt.Sprintf("Leader%s/nodes=%d", what, size) }
	began := time.Now()
	clients, err := openClients(ctx, f.base, size-scaleReplicas)
	defer closeMany(clients)
	if err != nil {
		return err
	}
	if len(clients) > 0 {
		out.add(name("ClientsReady"), 1, figure{time.Since(began).Seconds(), unitTime})
	}
	if err := loop.Sleep(ctx, s.settle); err != nil {
		return err
	}
	leader, err := f.find(ctx, roleLeader)
	if err != nil {
		return err
	}
	used, idle, err := watch(ctx, leader, s.idle)
	if err != nil {
		return err
	}
	out.add(name("Idle"), 1, figure{idle, "cores"}, figure{float64(used.Resident), "resident-B"})
	count, cpu, err := leaderPairs(ctx, f, leader, clients, s.span)
	if err != nil || count == 0 {
		return errors.Join(err, ctx.Err())
	}
	each := func(total time.Duration) float64 { return total.Seconds() / float64(count) }
	out.add(name("Pair"), count, figure{each(s.span), unitTime}, figure{each(cpu) - idle*each(s.span), unitCPU})
	if !kill {
		return nil
	}
	return leaderKilled(ctx, s, out, f, leader, clients, name("Killed"))
}

// openClients adds nodes of this process to a fleet, and waits until all are ready.
func openClients(ctx context.Context, base startup, count int) (clients []*node, err error) {
	for i := range count {
		c := base
		c.Index, c.Unnamed = scaleReplicas+i, true
		n, err := startHoldfast(ctx, c)
		if err != nil {
			return clients, err
		}
		clients = append(clients, n)
	}
	return clients, allReady(ctx, clients)
}

// leaderPairs lets callers acquire and release locks of their own, on clients or, where there are none, on the
// other replicas. It returns the pairs and the processor time of the raft leader's process.
func leaderPairs(ctx context.Context, f *fleet, leader *proc, clients []*node, span time.Duration) (count int, cpu time.Duration, err error) {
	before, err := leader.ask(ctx, order{Op: "usage"})
	if err != nil {
		return 0, 0, err
	}
	if len(clients) > 0 {
		count, _, err = pairs(ctx, clients[:min(len(clients), scaleSpread)], span)
	} else {
		var loads []func() (answer, error)
		for _, p := range f.procs {
			if p != leader {
				loads = append(loads, p.begin(ctx, order{Op: "load", What: opPair, Count: scaleCallers / (scaleReplicas - 1), Span: span}))
			}
		}
		for _, wait := range loads {
			a, e := wait()
			count, err = count+len(a.Times), errors.Join(err, e)
		}
	}
	after, e := leader.ask(ctx, order{Op: "usage"})
	return count, after.Figures.CPU - before.Figures.CPU, errors.Join(err, e)
}

// leaderKilled kills the raft leader under clients that hold locks, and counts the leases that were lost.
func leaderKilled(ctx context.Context, s settings, out *lines, f *fleet, leader *proc, clients []*node, name string) error {
	each := s.locks/10/len(clients) + 1
	failed := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { failed[i] = c.hold(ctx, each) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	f.kill(leader)
	if err := loop.Sleep(ctx, s.after); err != nil {
		return err
	}
	lost := 0
	for _, c := range clients {
		lost += c.lost()
	}
	out.add(name, 1, figure{float64(each * len(clients)), "leases"}, figure{float64(lost), "lost"})
	return nil
}
