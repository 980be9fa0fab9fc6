package sim_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// both runs f on a fleet with disks and on one without.
func both(t *testing.T, nodes int, f func(t *testing.T, s *sim.Sim)) {
	t.Parallel()
	for _, diskless := range []bool{false, true} {
		t.Run(fmt.Sprintf("diskless=%v", diskless), func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: nodes, Diskless: diskless, Config: func(_ int, c *holdfast.Config) { c.TTL = ttl }}, func(s *sim.Sim) { f(t, s) })
		})
	}
}

// gone leaves a node, which must be let go.
func gone(t *testing.T, n *sim.Node) {
	if err := n.Leave(until(time.Minute)); err != nil {
		t.Errorf("node %d leaves: %v", n.Index(), err)
	}
}

// sameGroup wants every node that runs in one group, which serves, and returns it.
func sameGroup(t *testing.T, s *sim.Sim) (group string) {
	t.Helper()
	for _, n := range s.Nodes() {
		if c := n.Cluster(); c != nil {
			id := c.Status().ClusterID
			if group != "" && id != group {
				t.Errorf("node %d is in group %s, others in %s", n.Index(), id, group)
			}
			group = id
			release(t, acquire(t, c, "served"))
		}
	}
	return group
}

func TestANodeThatLeavesComesBackAsAnother(t *testing.T) {
	both(t, 4, func(t *testing.T, s *sim.Sim) {
		group, n := sameGroup(t, s), s.Node(1)
		id, ctx := n.Cluster().ID(), n.Context()
		gone(t, n)
		if n.Cluster() != nil || ctx.Err() == nil {
			t.Error("it still runs")
		}
		if err := n.Leave(until(time.Minute)); err == nil {
			t.Error("what does not run has left")
		}
		if n.Open().ID() == id {
			t.Error("it has its old id")
		}
		n.Ready()
		if sameGroup(t, s) != group {
			t.Error("the group is another")
		}
	})
}

func TestAnotherMachineHasAnotherAddressAndAnEmptyDisk(t *testing.T) {
	both(t, 3, func(t *testing.T, s *sim.Sim) {
		group := sameGroup(t, s)
		seen := make(map[string]bool)
		for _, n := range s.Nodes() {
			seen[n.Cluster().ID()], seen[n.Cluster().Addr()] = true, true
			n.Kill()
			n.Replace()
			c := n.Open()
			n.Ready()
			if seen[c.ID()] || seen[c.Addr()] {
				t.Errorf("node %d is %s at %s still", n.Index(), c.ID(), c.Addr())
			}
		}
		if sameGroup(t, s) != group {
			t.Error("the group is another")
		}
		// The network knows it by its new address.
		s.Node(2).Isolate()
		time.Sleep(5 * time.Second)
		if err := reach(s.Node(2), time.Second); err == nil {
			t.Error("an isolated machine is served")
		}
	})
}

func TestAMachineThatIsMadeAnewKeepsItsAddressAlone(t *testing.T) {
	both(t, 3, func(t *testing.T, s *sim.Sim) {
		group := sameGroup(t, s)
		for _, n := range s.Nodes() {
			id, addr := n.Cluster().ID(), n.Cluster().Addr()
			c := n.Reimage(time.Second)
			n.Ready()
			if c.ID() == id || c.Addr() != addr {
				t.Errorf("node %d was %s at %s and is %s at %s", n.Index(), id, addr, c.ID(), c.Addr())
			}
		}
		if sameGroup(t, s) != group {
			t.Error("the group is another")
		}
	})
}

func TestAFleetGrowsFromOneNodeToNineAndShrinksAgain(t *testing.T) {
	both(t, 1, func(t *testing.T, s *sim.Sim) {
		group := sameGroup(t, s)
		l := acquire(t, s.Node(0).Cluster(), "held")
		for range 2 {
			s.Scale(9)
			if got := sameGroup(t, s); got != group || len(s.Nodes()) != 9 {
				t.Errorf("%d nodes of group %s, which was %s", len(s.Nodes()), got, group)
			}
			s.Scale(1)
			if sameGroup(t, s) != group {
				t.Error("the group is another")
			}
		}
		if !l.Valid() {
			t.Errorf("the node that stayed lost its lease: %v", l.Err())
		}
		release(t, l)
	})
}

func TestARollingUpdateGoesBatchByBatch(t *testing.T) {
	for what, end := range map[string]func(*sim.Node){
		"leave":   nil,
		"replace": (*sim.Node).Replace,
	} {
		t.Run(what, func(t *testing.T) {
			both(t, 6, func(t *testing.T, s *sim.Sim) {
				group := sameGroup(t, s)
				ids := make(map[string]bool)
				for _, n := range s.Nodes() {
					ids[n.Cluster().ID()] = true
				}
				s.Roll(4, func(n *sim.Node) {
					gone(t, n)
					if end != nil {
						end(n)
					}
				})
				for _, n := range s.Nodes() {
					if ids[n.Cluster().ID()] {
						t.Errorf("node %d was not updated", n.Index())
					}
				}
				if sameGroup(t, s) != group {
					t.Error("the group is another")
				}
			})
		})
	}
}

func TestAllNodesThatLeaveAtOneMomentComeBack(t *testing.T) {
	both(t, 5, func(t *testing.T, s *sim.Sim) {
		l := acquire(t, s.Node(0).Cluster(), "served")
		s.Scale(0)
		s.Scale(5)
		sameGroup(t, s)
		if next := acquire(t, s.Node(1).Cluster(), "served"); next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

// What operators do and what happens to machines, by chance and one after the other, with a service
// that holds one lock.
func TestWhateverOperatorsDoByChanceTheLockIsHeldOnce(t *testing.T) {
	t.Parallel()
	for _, diskless := range []bool{false, true} {
		t.Run(fmt.Sprintf("diskless=%v", diskless), func(t *testing.T) {
			sim.Seeds(t, 1, func(t *testing.T, seed uint64) {
				sim.Run(t, sim.Options{
					Nodes: 3 + int(seed%4), Seed: seed, Diskless: diskless, Service: works,
					Config: func(_ int, c *holdfast.Config) { c.TTL = ttl },
				}, func(s *sim.Sim) {
					s.Nemesis(3*time.Minute, sim.FaultReplace, sim.FaultReimage, sim.FaultLeave, sim.FaultRoll, sim.FaultRestart, sim.FaultKill)
					s.Nemesis(time.Minute)
					if n := s.Section("work").Entered(); n < 50 {
						t.Errorf("the service got %d turns", n)
					}
				})
			})
		})
	}
}

// works takes the lock for a second, again and again.
func works(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
	for ctx.Err() == nil {
		l, err := c.Acquire(ctx, "work")
		if err != nil {
			return err
		}
		leave := n.Section("work").Enter(l.Context(), l.Token())
		select {
		case <-l.Done():
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		leave()
		_ = l.Release(ctx)
	}
	return nil
}

// The environment of a simulation said that a directory ends with the process, and no node asked: a
// simulated node without a disk closed as one that comes back, and kept its vote. Two such restarts
// within seconds could leave a fleet of three without a majority.
func TestANodeWithoutADiskHandsItsVoteOverAsItCloses(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Diskless: true}, func(s *sim.Sim) {
		leader := s.RaftLeader()
		for _, n := range s.Nodes() {
			voters := leader.Cluster().Status().Voters
			old := n.Cluster().ID()
			if n == leader || !slices.ContainsFunc(voters, func(r holdfast.Replica) bool { return r.ID == old }) {
				continue
			}
			n.Close()
			if voters = leader.Cluster().Status().Voters; slices.ContainsFunc(voters, func(r holdfast.Replica) bool { return r.ID == old }) {
				t.Errorf("it is closed, and the voters are still %v", voters)
			}
			n.Open()
			return
		}
		t.Error("the raft leader is the only voter")
	})
}
