package sim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/env"
)

const (
	port      = "7643"
	readyTime = 2 * time.Minute // virtual
)

// Node is one node of the fleet: a host with a clock and a disk, on which a Cluster runs or not.
type Node struct {
	s    *Sim
	i    int
	host string

	mu      sync.Mutex
	disk    *vfs.MemFS
	clock   *clock.Skew
	cluster *holdfast.Cluster
}

func newNode(s *Sim, i int) *Node {
	return &Node{s: s, i: i, host: host(i), disk: vfs.NewStrictMem(), clock: clock.Skewed(clock.System(), 1)}
}

// Cluster is what runs on the node, nil if nothing does.
func (n *Node) Cluster() *holdfast.Cluster {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cluster
}

// Open starts the node on its disk. It fails the test if the node does not open.
func (n *Node) Open() *holdfast.Cluster {
	n.s.t.Helper()
	c, err := n.TryOpen()
	if err != nil {
		n.s.t.Fatalf("opening node %d: %v", n.i, err)
	}
	return c
}

// TryOpen starts the node on its disk.
func (n *Node) TryOpen() (*holdfast.Cluster, error) {
	cfg := holdfast.Config{Cluster: "sim", Name: fmt.Sprint("node", n.i), Logger: n.s.opts.Logger}
	for j := range n.s.nodes {
		if j != n.i {
			cfg.Join = append(cfg.Join, net.JoinHostPort(host(j), port))
		}
	}
	if len(n.s.nodes) < 3 {
		cfg.Bootstrap = len(n.s.nodes)
	}
	if n.s.opts.Config != nil {
		n.s.opts.Config(n.i, &cfg)
	}
	cfg.Bind = net.JoinHostPort(n.host, port)
	dir, err := datadir.OpenFS(n.disk, "/data", cfg.Cluster)
	if err != nil {
		return nil, err
	}
	ctx := env.With(context.Background(), env.Env{Network: n.s.net, Clock: n.clock, Dir: dir})
	c, err := holdfast.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.cluster = c
	n.mu.Unlock()
	return c, nil
}

// Ready waits until the node can serve and fails the test if that takes two virtual minutes.
func (n *Node) Ready() {
	n.s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if err := n.Cluster().Ready(ctx); err != nil {
		n.s.t.Fatalf("node %d is not ready: %v", n.i, err)
	}
}

// take returns what runs and leaves nothing.
func (n *Node) take() *holdfast.Cluster {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.cluster
	n.cluster = nil
	return c
}

// Close closes what runs on the node, in good order.
func (n *Node) Close() {
	if c := n.take(); c != nil {
		_ = c.Close()
	}
}

// Crash ends what runs on the node as a power cut does: from one moment to the next nothing of it reaches
// the network, and what was not synced is gone from its disk. It returns once the node can be opened again.
func (n *Node) Crash() {
	c := n.take()
	if c == nil {
		return
	}
	n.Isolate()
	n.disk.SetIgnoreSyncs(true)
	_ = c.Close()
	n.disk.ResetToSyncedState()
	n.disk.SetIgnoreSyncs(false)
	n.Rejoin()
}

// Wipe gives a node on which nothing runs an empty disk: it comes back as a new node.
func (n *Node) Wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk = vfs.NewStrictMem()
}

// Isolate cuts the node off from all others, in both directions.
func (n *Node) Isolate() { n.s.net.Isolate(n.host) }

// Rejoin ends all cuts of the network at this node.
func (n *Node) Rejoin() { n.s.net.Heal(n.host) }

// Drift sets the rate of the node's clock, 1 being right.
func (n *Node) Drift(rate float64) { n.clock.Rate(rate) }

// Suspend moves the node's clock forward at once, as it looks to a process when its machine was suspended
// for d.
func (n *Node) Suspend(d time.Duration) { n.clock.Suspend(d) }
