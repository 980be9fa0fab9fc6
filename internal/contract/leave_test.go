package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

const leaveMax = testkit.LeaveMax

func TestANodeThatLeavesGivesEverythingBackAndItsDirectoryBeginsAnew(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Config: longTTL}, func(s *sim.Sim) {
		for round, pick := range []func() *sim.Node{
			s.RaftLeader,
			func() *sim.Node { return follower(s, holdfast.RoleVoter) },
			func() *sim.Node { return follower(s, holdfast.RoleStandby) },
			s.RaftLeader,
		} {
			n := pick()
			c, rest := n.Cluster(), others(s, n)
			group, id := c.Status().ClusterID, c.ID()
			l := get(t, c, "held", holdfast.WithTTL(time.Hour))
			granted := make(chan *holdfast.Lease, 1)
			go func() { granted <- get(t, rest[0].Cluster(), "held") }()
			time.Sleep(time.Second)
			began := time.Now()
			if err := c.Leave(until(time.Minute)); err != nil {
				t.Fatalf("round %d: Leave: %v", round, err)
			}
			if took := time.Since(began); took > leaveMax {
				t.Errorf("round %d: Leave took %v", round, took)
			}
			next := <-granted
			if took := time.Since(began); took > leaveMax || next.Token() <= l.Token() {
				t.Errorf("round %d: granted after %v with token %d after %d", round, took, next.Token(), l.Token())
			}
			if err := l.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("round %d: the holder was told %v", round, err)
			}
			if err := c.Err(); !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("round %d: Err after Leave: %v", round, err)
			}
			for _, o := range rest {
				settles(t, 5*time.Second, "group without the node that left", func() bool {
					st := o.Cluster().Status()
					return len(st.Voters) == 3 && !slices.Contains(testkit.IDs(slices.Concat(st.Voters, st.Standbys)), id) && st.Ready
				})
				settles(t, 5*time.Second, "good-bye", func() bool { return stateOf(o.Cluster(), id) == holdfast.StateLeft })
			}
			if err := next.Release(until(time.Minute)); err != nil {
				t.Error(err)
			}
			n.Close()
			fresh := n.Open()
			n.Ready()
			if fresh.ID() == id || fresh.Status().ClusterID != group {
				t.Errorf("round %d: it came back as %s, was %s, in group %s", round, fresh.ID(), id, fresh.Status().ClusterID)
			}
			get(t, fresh, fmt.Sprint("own", round))
		}
	})
}

func TestTheLastNodeThatLeavesKeepsItsData(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		l := get(t, s.Node(0).Cluster(), "kept", holdfast.WithValue([]byte("value")))
		if err := l.Release(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		last := s.Node(2)
		id := last.Cluster().ID()
		for i, n := range s.Nodes() {
			began := time.Now()
			if err := n.Cluster().Leave(until(time.Minute)); err != nil {
				t.Fatalf("node %d: %v", i, err)
			}
			if took := time.Since(began); took > leaveMax {
				t.Errorf("node %d: Leave took %v", i, took)
			}
			n.Close()
		}
		c := last.Open()
		last.Ready()
		info, err := c.Inspect(until(time.Minute), "kept")
		if c.ID() != id || err != nil || string(info.Value) != "value" {
			t.Errorf("it came back as %s, was %s, with %+v, %v", c.ID(), id, info, err)
		}
		if next := get(t, c, "kept"); next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

func TestLeaveWithAnEndedContextClosesAndTheGroupReplacesTheNodeAtOnce(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 5, Config: longTTL}, func(s *sim.Sim) {
		for round, pick := range []func() *sim.Node{
			s.RaftLeader,
			func() *sim.Node { return follower(s, holdfast.RoleVoter) },
		} {
			n := pick()
			c, rest := n.Cluster(), others(s, n)
			l := get(t, c, "held", holdfast.WithTTL(time.Hour))
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			began := time.Now()
			if err := c.Leave(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("round %d: Leave: %v", round, err)
			}
			if took := time.Since(began); took > closeBound {
				t.Errorf("round %d: Leave took %v", round, took)
			}
			if !errors.Is(c.Err(), holdfast.ErrClosed) || l.Valid() {
				t.Errorf("round %d: the node is not closed: %v", round, c.Err())
			}
			settles(t, 5*time.Second, "replacement", func() bool {
				st := rest[0].Cluster().Status()
				return len(st.Voters) == 3 && !slices.Contains(testkit.IDs(st.Voters), c.ID())
			})
			next := get(t, rest[1].Cluster(), "held")
			if took := time.Since(began); took > 2*leaveMax {
				t.Errorf("round %d: granted after %v", round, took)
			}
			if err := next.Release(until(time.Minute)); err != nil {
				t.Error(err)
			}
			// Its directory does not know that it is out: it hears of that, and is a new node at
			// the next start.
			n.Close()
			if err := n.Open().Ready(until(time.Minute)); !errors.Is(err, holdfast.ErrRemoved) {
				t.Errorf("round %d: opened again it was told %v", round, err)
			}
			n.Close()
			n.Open()
			n.Ready()
		}
	})
}

func TestLeaveIsAnsweredInEveryState(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3, Late: true}, func(s *sim.Sim) {
		// Waiting for peers: there is nothing to leave, however long the context lasts.
		n := s.Node(0)
		c := n.Open()
		time.Sleep(time.Second)
		began := time.Now()
		if err := c.Leave(context.Background()); err != nil {
			t.Errorf("Leave of a node without a group: %v", err)
		}
		if took := time.Since(began); took > leaveMax {
			t.Errorf("Leave of a node without a group took %v", took)
		}
		n.Close()

		for _, n := range s.Nodes() {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		// Twice and at once.
		c = n.Cluster()
		var all sync.WaitGroup
		var mu sync.Mutex
		told := make(map[string]int)
		for range 4 {
			all.Go(func() {
				err := c.Leave(until(time.Minute))
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, holdfast.ErrClosed) {
					told["closed"]++
				} else if err == nil {
					told["done"]++
				} else {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if told["done"] != 1 || told["closed"] != 3 {
			t.Errorf("four calls were told %v", told)
		}
		// Without a quorum it takes as long as the context, and the node is closed all the same.
		s.Partition([]int{1}, []int{2})
		began = time.Now()
		if err := s.Node(1).Cluster().Leave(until(10 * time.Second)); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("Leave without a quorum: %v", err)
		}
		if took := time.Since(began); took > 10*time.Second+closeBound {
			t.Errorf("Leave without a quorum took %v, its context 10 s", took)
		}
		if err := s.Node(1).Cluster().Err(); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("after Leave: %v", err)
		}
	})
}

func TestCallsDuringLeaveTakeNoLockAlong(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4, Config: longTTL}, func(s *sim.Sim) {
		n := follower(s, holdfast.RoleVoter)
		c, other := n.Cluster(), others(s, n)[0].Cluster()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for {
					l, err := c.Acquire(context.Background(), fmt.Sprint("busy", i), holdfast.WithTTL(time.Hour))
					if err != nil {
						if !errors.Is(err, holdfast.ErrClosed) {
							t.Errorf("a call was told %v", err)
						}
						return
					}
					time.Sleep(5 * time.Millisecond)
					_ = l.Release(context.Background())
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		if err := c.Leave(until(time.Minute)); err != nil {
			t.Error(err)
		}
		all.Wait()
		began := time.Now()
		for i := range 8 {
			get(t, other, fmt.Sprint("busy", i))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the locks of the node that left were free %v after Leave", took)
		}
	})
}
