package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	gossipPoll  = 100 * time.Millisecond // between two looks at whether all nodes see each other
	gossipWaits = 60                     // times that it is measured, at most, until the news of the start are over
	gossipNews  = 5000                   // bytes a second that a node sends while they are not: fifteen full packets are 20,000
)

// measureGossip measures what gossip alone costs a node in fleets of several sizes, all in this process:
// nodes that have a port and gossip, and neither a replica nor a client.
func measureGossip(ctx context.Context, s settings, out *lines) error {
	for _, size := range s.gossips {
		if err := gossip(ctx, s, out, size); err != nil {
			return fmt.Errorf("%d nodes: %w", size, err)
		}
	}
	return nil
}

// gossip measures one fleet: until all nodes see each other, and at rest.
func gossip(ctx context.Context, s settings, out *lines, size int) (err error) {
	nodes := make([]*gossiper, 0, size)
	defer func() {
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(n.close)
		}
		all.Wait()
	}()
	began := time.Now()
	for i := range size {
		var join []string
		if i > 0 {
			join = []string{nodes[i/2].endpoint.Addr()} // no node is asked by all the others
		}
		n, err := newGossiper(ctx, join)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		for n.sees() < size {
			if err := loop.Sleep(ctx, gossipPoll); err != nil {
				return err
			}
		}
	}
	name := func(what string) string { return fmt.Sprintf("Gossip%s/nodes=%d", what, size) }
	out.add(name("Complete"), 1, figure{time.Since(began).Seconds(), unitTime})
	cores, bytes, err := atPeace(ctx, s, nodes)
	if err != nil {
		return err
	}
	out.add(name("Idle"), 1, figure{cores / float64(size), "cores"}, figure{bytes / float64(size), "B/s"})
	return nil
}

// atPeace is how many processors all nodes keep busy and what they send a second, when the news of the start
// are over.
func atPeace(ctx context.Context, s settings, nodes []*gossiper) (cores, bytes float64, err error) {
	sent := func() (total uint64) {
		for _, n := range nodes {
			bytes, _ := n.Traffic()
			total += bytes
		}
		return total
	}
	for range gossipWaits {
		cpu, total, from := process.CPU(), sent(), time.Now()
		if err := loop.Sleep(ctx, s.idle); err != nil {
			return 0, 0, err
		}
		took := time.Since(from).Seconds()
		cores, bytes = (process.CPU()-cpu).Seconds()/took, float64(sent()-total)/took
		if bytes < gossipNews*float64(len(nodes)) {
			break
		}
	}
	return cores, bytes, nil
}

// gossiper is a node that only gossips.
type gossiper struct {
	*membership.Gossip
	endpoint transport.Endpoint
}

func newGossiper(ctx context.Context, join []string) (*gossiper, error) {
	endpoint, err := transport.TCP().Listen(ctx, "127.0.0.1:0", transport.Options{})
	if err != nil {
		return nil, err
	}
	g, err := membership.Open(ctx, membership.Config{
		Cluster: "bench", Endpoint: endpoint, Join: join, Logger: quiet(),
		Meta: membership.Meta{Node: datadir.NewID(), Incarnation: 1, Phase: autopilot.PhaseFresh},
	})
	if err != nil {
		return nil, errors.Join(err, endpoint.Close())
	}
	return &gossiper{g, endpoint}, nil
}

func (g *gossiper) close() {
	_ = g.Gossip.Close()
	_ = g.endpoint.Close()
}

// sees is how many nodes it sees, with itself.
func (g *gossiper) sees() (count int) {
	for _, m := range g.Members() {
		if m.Here() {
			count++
		}
	}
	return count
}
