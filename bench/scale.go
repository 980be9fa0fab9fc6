package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/process"
)

const (
	scaleReplicas = 5               // of every fleet, as Config.Replicas has it
	scaleCallers  = 64              // spread over the clients, or over the replicas where there are none
	scaleSpread   = 45              // clients that have callers, at most
	scalePause    = 3 * time.Second // after the last node is ready: gossip has told all of it
)

// measureScale measures what a command costs in fleets of several sizes, all nodes in this process: five
// hold a replica, and the others are clients of those.
func measureScale(ctx context.Context, s settings, out *lines) error {
	for round := range s.rounds {
		for _, size := range s.sizes {
			if err := scale(ctx, s, out, size, round); err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
		}
	}
	return nil
}

// scale measures one fleet.
func scale(ctx context.Context, s settings, out *lines, size, round int) error {
	began := time.Now()
	nodes, err := openMany(ctx, s, size, round)
	defer closeMany(nodes)
	if err != nil {
		return err
	}
	name := func(what string) string { return fmt.Sprintf("Scale%s/nodes=%d", what, size) }
	out.add(name("Ready"), 1, figure{time.Since(began).Seconds(), unitTime})
	idle, err := atRest(ctx, s)
	if err != nil {
		return err
	}
	out.add(name("Idle"), 1, figure{idle, "cores"})
	count, cpu, err := pairs(ctx, callersOf(nodes), s.span)
	if err != nil || count == 0 {
		return errors.Join(err, ctx.Err())
	}
	each := func(total float64) float64 { return total / float64(count) }
	out.add(name("Pair"), count, figure{each(s.span.Seconds()), unitTime}, figure{each(cpu.Seconds() - idle*s.span.Seconds()), unitCPU})
	return nil
}

// openMany opens a fleet, and waits until all nodes are ready. It returns those that are open.
func openMany(ctx context.Context, s settings, size, round int) (nodes []*node, err error) {
	peers := filepath.Join(s.data, fmt.Sprintf("peers-%d-%d", size, round))
	for i := range size {
		start := startup{Peers: peers, Voters: votersOfFleet, Index: i, Timing: s.timing, Unnamed: i >= scaleReplicas}
		n, err := startHoldfast(ctx, start)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, allReady(ctx, nodes)
}

func allReady(ctx context.Context, nodes []*node) error {
	var all sync.WaitGroup
	failed := make([]error, len(nodes))
	for i, n := range nodes {
		all.Go(func() { failed[i] = n.Ready(ctx) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func closeMany(nodes []*node) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { n.Close() })
	}
	all.Wait()
}

// atRest is how many processors the fleet keeps busy when nobody asks it anything.
func atRest(ctx context.Context, s settings) (cores float64, err error) {
	if err := loop.Sleep(ctx, scalePause); err != nil {
		return 0, err
	}
	before, began := process.CPU(), time.Now()
	err = loop.Sleep(ctx, s.idle)
	return (process.CPU() - before).Seconds() / time.Since(began).Seconds(), err
}

// callersOf are the nodes that have callers.
func callersOf(nodes []*node) []*node {
	if len(nodes) > scaleReplicas {
		nodes = nodes[scaleReplicas:]
	}
	return nodes[:min(len(nodes), scaleSpread)]
}

// pairs lets callers on some nodes acquire and release locks of their own.
func pairs(ctx context.Context, nodes []*node, span time.Duration) (count int, cpu time.Duration, err error) {
	end := time.Now().Add(span) // no deadline: a call that could not meet one is refused early
	var all sync.WaitGroup
	var done atomic.Int64
	failed := make([]error, scaleCallers)
	before := process.CPU()
	for i := range scaleCallers {
		pair, err := nodes[i%len(nodes)].operation(opPair, i)
		if err != nil {
			return 0, 0, err
		}
		all.Go(func() {
			for time.Now().Before(end) && failed[i] == nil {
				if failed[i] = pair(ctx); failed[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(done.Load()), process.CPU() - before, errors.Join(failed...)
}
