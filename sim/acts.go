package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// leaveTime is what Leave may take in a fleet that is well, whatever the number of nodes that
// leave.
const leaveTime = time.Minute

// Leave is the planned departure of what runs on the node: its service ends, then Cluster.Leave,
// and nothing runs. Its disk begins as a new node, unless all leave. It returns the error of
// Cluster.Leave.
func (n *Node) Leave(ctx context.Context) error {
	n.Resume()
	l := n.take()
	if l == nil {
		return holdfast.ErrClosed
	}
	n.s.fault("node %d leaves", n.i)
	l.end()
	return l.cluster.Leave(ctx)
}

// Replace puts a new machine in the place of one on which nothing runs: at another address, with an
// empty disk. Those that run hear of it by gossip, as none of them has it in its Join.
func (n *Node) Replace() {
	n.s.change(func() { n.host = n.s.newHost() })
	n.s.fault("node %d is another machine, at %s", n.i, n.host)
	n.Wipe()
}

// Reimage makes the node's machine anew under what runs: it is killed, its disk is emptied, and it
// is opened again at its address after the pause. It fails the test if the node does not open.
func (n *Node) Reimage(pause time.Duration) *holdfast.Cluster {
	n.s.t.Helper()
	n.Kill()
	n.Wipe()
	time.Sleep(pause)
	return n.Open()
}

// AtOnce carries an act out on several nodes at one moment, and returns when all are done.
func (s *Sim) AtOnce(nodes []*Node, act func(n *Node)) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() { act(n) })
	}
	all.Wait()
}

// Add makes one more node, unopened. It founds no group: it joins that of the others.
func (s *Sim) Add() *Node {
	n := newNode(s, len(s.nodes))
	s.change(func() { s.nodes = append(s.nodes, n) })
	return n
}

// Scale makes n nodes run, as the number of replicas that an operator sets does: the last of those
// that run leave at one moment, or closed ones are opened, then added ones. It returns when those
// that were opened are ready. An error of Leave, or a node that is not ready in two virtual
// minutes, fails the test.
func (s *Sim) Scale(n int) {
	s.t.Helper()
	s.fault("the fleet is scaled to %d nodes", n)
	var running, closed []*Node
	for _, o := range s.nodes {
		if o.running() != nil {
			running = append(running, o)
		} else {
			closed = append(closed, o)
		}
	}
	if len(running) > n {
		s.AtOnce(running[n:], (*Node).leaves)
		return
	}
	for len(running)+len(closed) < n {
		closed = append(closed, s.Add())
	}
	s.open(closed[:n-len(running)])
}

// Roll is a rolling update, as an orchestrator does it: batch by batch, in the order of the nodes,
// end is done to the nodes of a batch at one moment; then they are opened, and the next batch waits
// until these are ready. What end does to a node leaves nothing running on it: Leave, Leave and
// Replace, Close, Kill and Wipe.
func (s *Sim) Roll(batch int, end func(n *Node)) {
	s.t.Helper()
	s.fault("a rolling update of %d nodes in batches of %d", len(s.nodes), batch)
	for i := 0; i < len(s.nodes); i += batch {
		some := s.nodes[i:min(i+batch, len(s.nodes))]
		s.AtOnce(some, end)
		s.open(some)
	}
}

// open opens nodes, and waits until they are ready. One that hears that it was removed is opened
// again, as an orchestrator does with what has ended.
func (s *Sim) open(nodes []*Node) {
	s.t.Helper()
	for _, n := range nodes {
		n.Open()
	}
	for _, n := range nodes {
		ctx, cancel := context.WithTimeout(context.Background(), readyTime)
		if errors.Is(n.Cluster().Ready(ctx), holdfast.ErrRemoved) {
			n.Restart()
		}
		cancel()
		n.Ready()
	}
}

// leaves is Leave of a node that must be let go, or has been removed before.
func (n *Node) leaves() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := n.Leave(ctx); err != nil && !errors.Is(err, holdfast.ErrRemoved) {
		n.s.fail("node %d leaves: %v", n.i, err)
	}
}

// end ends a process by chance. Without a disk it never comes back, so the group must be able to
// spare it.
func (s *Sim) end(what Fault, n *Node) {
	switch {
	case s.opts.Diskless && !s.spare():
	case what == FaultCrash:
		n.Crash()
	default:
		n.Kill()
	}
}

func (s *Sim) lose(what Fault, n *Node, d time.Duration) {
	n.Kill()
	switch what {
	case FaultWipe:
		n.Wipe()
	case FaultReplace:
		n.Replace()
	case FaultReimage:
		n.Wipe()
		return
	}
	time.Sleep(d)
}

func (s *Sim) depart(r *rand.Rand, what Fault, d time.Duration) {
	if what == FaultLeave {
		var some []*Node
		for _, i := range r.Perm(len(s.nodes))[:1+r.IntN(len(s.nodes))] {
			some = append(some, s.nodes[i])
		}
		s.AtOnce(some, (*Node).leaves)
		time.Sleep(d)
		return
	}
	elsewhere := r.IntN(2) == 0
	s.Roll(1+r.IntN((len(s.nodes)+1)/2), func(n *Node) {
		n.leaves()
		if elsewhere {
			n.Replace()
		}
	})
}

func (s *Sim) newHost() string {
	i := s.hosts
	s.hosts++
	return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250)
}
