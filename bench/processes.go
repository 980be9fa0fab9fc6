package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
)

// measureProcesses measures a fleet of many processes: five hold a replica, and the others are clients
// of those. Last it kills the raft leader, and counts the leases that were lost.
func measureProcesses(ctx context.Context, s settings, out *lines) error {
	f, err := newFleet(ctx, s, kindHoldfast, false)
	if err != nil {
		return err
	}
	defer f.stop()
	name := func(what string) string { return fmt.Sprintf("Processes%s/nodes=%d", what, s.processes) }
	began := time.Now()
	for i := votersOfFleet; i < s.processes; i++ {
		f.base.Unnamed = i >= scaleReplicas
		if err := f.add(); err != nil {
			return err
		}
	}
	if err := f.ready(ctx); err != nil {
		return err
	}
	out.add(name("Ready"), 1, figure{time.Since(began).Seconds(), unitTime})
	var clients []*proc
	for _, p := range f.procs {
		a, err := p.ask(ctx, order{Op: "role"})
		if err != nil {
			return err
		}
		if a.Role == roleClient {
			clients = append(clients, p)
		}
	}
	if len(clients) == 0 {
		return fmt.Errorf("of %d processes none is a client", len(f.procs))
	}
	if err := loop.Sleep(ctx, s.settle); err != nil {
		return err
	}
	if err := processesIdle(ctx, s, out, f, clients, name("Idle")); err != nil {
		return err
	}
	return processesLost(ctx, s, out, f, clients, name("LeaderKilled"))
}

// processesIdle is what the raft leader and a client use at rest.
func processesIdle(ctx context.Context, s settings, out *lines, f *fleet, clients []*proc, name string) error {
	leader, err := f.find(ctx, roleLeader)
	if err != nil {
		return err
	}
	watched := append([]*proc{leader}, clients...)
	cores, errs := make([]float64, len(watched)), make([]error, len(watched))
	var all sync.WaitGroup
	for i, p := range watched {
		all.Go(func() { _, cores[i], errs[i] = watch(ctx, p, s.idle) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	out.add(name+"/on="+roleLeader, 1, figure{cores[0], "cores"})
	slices.Sort(cores[1:])
	out.add(name+"/on="+roleClient, len(clients), figure{cores[1+len(clients)/2], "cores"}, figure{cores[len(clients)], "most-cores"})
	return nil
}

// processesLost kills the raft leader under clients that hold locks.
func processesLost(ctx context.Context, s settings, out *lines, f *fleet, clients []*proc, name string) error {
	each := s.locks/10/len(clients) + 1
	var held []func() (answer, error)
	for _, p := range clients {
		held = append(held, p.begin(ctx, order{Op: "hold", Count: each, Timeout: 5 * time.Minute}))
	}
	for _, wait := range held {
		if _, err := wait(); err != nil {
			return err
		}
	}
	leader, err := f.find(ctx, roleLeader)
	if err != nil {
		return err
	}
	f.kill(leader)
	if err := loop.Sleep(ctx, s.after); err != nil {
		return err
	}
	lost := 0
	for _, p := range clients {
		a, err := p.ask(ctx, order{Op: "lost"})
		if err != nil {
			return err
		}
		lost += a.Count
	}
	out.add(name, 1, figure{float64(each * len(clients)), "leases"}, figure{float64(lost), "lost"})
	return nil
}
