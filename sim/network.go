package sim

import (
	"net"

	"github.com/holdfast-go/holdfast/transport"
)

// networkFaults is what the test wants of the network. What each link is like follows from it and
// from the nodes that are isolated, paused or about to die.
type networkFaults struct {
	faults map[[2]int]transport.Faults
	cuts   map[[2]int]bool
	refuse map[[2]int]bool
	gossip map[int]bool // nodes whose gossip is cut off
	raft   map[int]bool // nodes whose Raft is
}

func newNetworkFaults() networkFaults {
	return networkFaults{
		faults: make(map[[2]int]transport.Faults), cuts: make(map[[2]int]bool), refuse: make(map[[2]int]bool),
		gossip: make(map[int]bool), raft: make(map[int]bool),
	}
}

// Partition cuts the network between nodes of different groups, in both directions. A node in no
// group stays connected to all. It adds to the cuts that there are; Heal ends them.
func (s *Sim) Partition(groups ...[]int) {
	s.fault("the network parts into %v", groups)
	s.change(func() {
		for a, group := range groups {
			for b, other := range groups {
				if a == b {
					continue
				}
				for _, i := range group {
					for _, j := range other {
						s.network.cuts[[2]int{i, j}] = true
					}
				}
			}
		}
	})
}

// Cut cuts the direction from node i to node j and leaves the other one. Heal ends it, and
// Node.Rejoin of either.
func (s *Sim) Cut(i, j int) {
	s.fault("the network is cut from node %d to node %d", i, j)
	s.change(func() { s.network.cuts[[2]int{i, j}] = true })
}

// Faults sets the faults of the network from node i to node j, one direction: loss, duplication,
// delay and so on. The zero value ends them; cuts are separate.
func (s *Sim) Faults(i, j int, f transport.Faults) {
	s.fault("the network from node %d to node %d: %+v", i, j, f)
	s.change(func() { s.network.faults[[2]int{i, j}] = f })
}

// FaultsEverywhere sets the same faults from every node to every other one.
func (s *Sim) FaultsEverywhere(f transport.Faults) {
	s.fault("the network: %+v", f)
	s.change(func() {
		for i := range s.nodes {
			for j := range s.nodes {
				s.network.faults[[2]int{i, j}] = f
			}
		}
	})
}

// Refuse ends the connections between nodes i and j, and refuses those that i dials until it is called
// with false, although the process of j lives: as a proxy between them that is restarted. Heal ends
// it, too.
func (s *Sim) Refuse(i, j int, refuses bool) {
	s.fault("node %d is refused what it dials to node %d: %v", i, j, refuses)
	s.change(func() { s.network.refuse[[2]int{i, j}] = refuses })
	if refuses {
		s.mu.Lock()
		from, to := s.nodes[i].host, s.nodes[j].host
		s.mu.Unlock()
		s.net.Break(from, to)
	}
}

// Heal ends all cuts and other faults of the network. A paused node stays cut off until it is
// resumed.
func (s *Sim) Heal() {
	s.fault("the network is healed")
	s.change(func() {
		s.network = newNetworkFaults()
		for _, n := range s.nodes {
			n.isolated = false
		}
	})
}

// Isolate cuts the node off from all others, in both directions.
func (n *Node) Isolate() {
	n.s.fault("node %d is isolated", n.i)
	n.s.change(func() { n.isolated = true })
}

// CutGossip cuts off the gossip of a node, in both directions, and leaves its Raft connections: as
// a firewall does that blocks UDP, or another secret. Heal ends it, and Rejoin.
func (n *Node) CutGossip() {
	n.s.fault("the gossip of node %d is cut off", n.i)
	n.s.change(func() { n.s.network.gossip[n.i] = true })
}

// CutRaft cuts off the Raft connections of a node, in both directions, and leaves its gossip: as a
// certificate does that has expired. Heal ends it, and Rejoin.
func (n *Node) CutRaft() {
	n.s.fault("the raft connections of node %d are cut off", n.i)
	n.s.change(func() { n.s.network.raft[n.i] = true })
}

// Rejoin ends all cuts of the network at this node.
func (n *Node) Rejoin() {
	n.s.fault("node %d is connected again", n.i)
	n.s.change(func() {
		n.isolated = false
		delete(n.s.network.gossip, n.i)
		delete(n.s.network.raft, n.i)
		for pair := range n.s.network.cuts {
			if pair[0] == n.i || pair[1] == n.i {
				delete(n.s.network.cuts, pair)
			}
		}
	})
}

// change edits what decides on the network, and makes every link so.
func (s *Sim) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
	for i, from := range s.nodes {
		for j, to := range s.nodes {
			if i == j {
				continue
			}
			f := s.network.faults[[2]int{i, j}]
			f.Cut = f.Cut || s.network.cuts[[2]int{i, j}] || from.unreachable() || to.unreachable()
			f.CutGossip = f.CutGossip || s.network.gossip[i] || s.network.gossip[j]
			f.CutRaft = f.CutRaft || s.network.raft[i] || s.network.raft[j]
			f.Refuse = f.Refuse || s.network.refuse[[2]int{i, j}] || to.killed && s.reaches(to, from)
			s.net.SetFaults(from.host, to.host, f)
		}
	}
}

// reaches reports whether the kernel of a node reaches another node, whatever becomes of the first
// one's process. The caller holds Sim.mu.
func (s *Sim) reaches(from, to *Node) bool {
	cut := s.network.cuts[[2]int{from.i, to.i}] || s.network.cuts[[2]int{to.i, from.i}] || s.network.raft[from.i] || s.network.raft[to.i]
	return !cut && !from.isolated && !to.unreachable()
}

// hangUp ends the connections of a node whose process was killed, as its kernel does: at once, with
// the nodes that it reaches.
func (s *Sim) hangUp(n *Node) {
	s.mu.Lock()
	var hosts []string
	for _, o := range s.nodes {
		if o != n && s.reaches(n, o) {
			hosts = append(hosts, o.host)
		}
	}
	s.mu.Unlock()
	for _, host := range hosts {
		s.net.Break(n.host, host)
	}
}

// addresses are the host of a node, and what others are dialed at.
func (s *Sim) addresses(n *Node) (own string, others []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.nodes {
		if o != n {
			others = append(others, net.JoinHostPort(o.host, port))
		}
	}
	return n.host, others
}

// unreachable reports whether nothing goes to and from the node. The caller holds Sim.mu.
func (n *Node) unreachable() bool { return n.isolated || n.dying || n.paused != nil }
