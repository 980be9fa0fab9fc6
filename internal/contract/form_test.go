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

// What Ready says is true: whatever the order and the pauses in which nodes start, a call that
// follows it on the same node needs no second attempt.
func TestTheCallsAfterReadyWork(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 5, Seed: seed + 1, Late: true}, func(s *sim.Sim) {
				var all sync.WaitGroup
				for i, n := range s.Nodes() {
					pause := time.Duration(seed*uint64(i)*317%2500) * time.Millisecond
					all.Go(func() {
						time.Sleep(pause)
						c := n.Open()
						if err := c.Ready(until(time.Minute)); err != nil {
							t.Errorf("node %d: %v", i, err)
							return
						}
						if !c.Status().Ready {
							t.Errorf("node %d: Status is not ready: %+v", i, c.Status())
						}
						name := fmt.Sprint("own", i)
						l, err := c.TryAcquire(until(time.Second), name)
						if err != nil {
							t.Errorf("node %d: acquiring: %v", i, err)
							return
						}
						if err := c.Verify(until(time.Second), name, l.Token()); err != nil {
							t.Errorf("node %d: verifying: %v", i, err)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

func TestANodeThatOnlyJoinsNeverFormsAGroup(t *testing.T) {
	t.Parallel()
	joiner := func(i int, c *holdfast.Config) {
		if i > 0 {
			c.Bootstrap = -1
		} else {
			c.Bootstrap = 1
		}
	}
	sim.Run(t, sim.Options{Nodes: 4, Late: true, Config: joiner}, func(s *sim.Sim) {
		for _, n := range s.Nodes()[1:] {
			n.Open()
		}
		if err := s.Node(1).Cluster().Ready(until(5 * time.Minute)); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("Ready of a node that only joins: %v", err)
		}
		for i, n := range s.Nodes()[1:] {
			if st := n.Cluster().Status(); st.ClusterID != "" {
				t.Errorf("node %d belongs to group %s", i+1, st.ClusterID)
			}
		}
		began := time.Now()
		s.Node(0).Open()
		for i, n := range s.Nodes() {
			n.Ready()
			get(t, n.Cluster(), fmt.Sprint("own", i))
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the group was found after %v", took)
		}
	})
}

func TestATokenFloorIsHeardBeforeTheFirstToken(t *testing.T) {
	t.Parallel()
	const floor = holdfast.Token(1) << 52
	var asked int
	ask := func(_ int, c *holdfast.Config) {
		c.TokenFloor = func(context.Context) (holdfast.Token, error) {
			if asked++; asked < 3 {
				return 0, errors.New("the resource does not answer yet")
			}
			return floor, nil
		}
	}
	sim.Run(t, sim.Options{Nodes: 3, Config: ask}, func(s *sim.Sim) {
		if l := get(t, s.Node(1).Cluster(), "lock"); l.Token() <= floor {
			t.Errorf("token %d, the resource has seen %d", l.Token(), floor)
		}
	})
}

// A group whose three founders were to meet first has lost two of them. Its raft leader leaves, and
// the next one's Config would have one node serve alone: whatever the two had been told of the
// group would be forgotten.
func TestTheGroupServesWhenAsManyHaveMetAsItsFounderWantedWhateverItsRaftLeaderIsConfiguredFor(t *testing.T) {
	t.Parallel()
	modest := func(i int, c *holdfast.Config) {
		if i > 2 {
			c.Bootstrap, c.Voters = -1, 1
		}
	}
	sim.Run(t, sim.Options{Nodes: 6, Late: true, Config: modest}, func(s *sim.Sim) {
		for _, n := range s.Nodes()[:3] {
			n.Open()
		}
		var founder *sim.Node
		for founder == nil {
			time.Sleep(time.Millisecond)
			for _, n := range s.Nodes()[:3] {
				if n.Cluster().Status().ClusterID != "" {
					founder = n
				}
			}
		}
		for _, n := range s.Nodes()[:3] {
			if n != founder {
				n.Crash()
			}
		}
		next := s.Node(3)
		next.Open()
		settles(t, time.Minute, "standby", func() bool {
			return slices.Contains(testkit.IDs(founder.Cluster().Status().Standbys), next.Cluster().ID())
		})
		if err := founder.Cluster().Leave(until(time.Minute)); err != nil {
			t.Fatal(err)
		}
		settles(t, time.Minute, "other raft leader", func() bool { return next.Cluster().Status().RaftLeader == next.Cluster().ID() })
		if l, err := next.Cluster().Acquire(until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("a lock of a group of one, founded by three: %v, %v", l, err)
		}
		s.Node(4).Open()
		if l, err := next.Cluster().Acquire(until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("a lock of a group of two, founded by three: %v, %v", l, err)
		}
		s.Node(5).Open()
		for _, n := range s.Nodes()[3:] {
			n.Ready()
			get(t, n.Cluster(), fmt.Sprint("own", n.Index()))
		}
		if voters := testkit.IDs(next.Cluster().Status().Voters); len(voters) != 3 {
			t.Errorf("%d voters", len(voters))
		}
	})
}
