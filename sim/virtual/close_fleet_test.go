package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// worstStates bring a fleet of three into a state and return the node to close.
func worstStates() map[string]func(*sim.Sim) *sim.Node {
	others := func(s *sim.Sim) (list []*sim.Node) {
		for _, n := range s.Nodes() {
			if n != s.RaftLeader() {
				list = append(list, n)
			}
		}
		return list
	}
	return map[string]func(*sim.Sim) *sim.Node{
		"well, raft leader":    func(s *sim.Sim) *sim.Node { return s.RaftLeader() },
		"well, follower":       func(s *sim.Sim) *sim.Node { return others(s)[0] },
		"isolated raft leader": func(s *sim.Sim) *sim.Node { return isolated(s.RaftLeader()) },
		"isolated follower":    func(s *sim.Sim) *sim.Node { return isolated(others(s)[0]) },
		"isolated for long": func(s *sim.Sim) *sim.Node {
			defer time.Sleep(2 * time.Minute)
			return isolated(others(s)[0])
		},
		"the others crashed": func(s *sim.Sim) *sim.Node {
			list := others(s)
			n := s.RaftLeader()
			list[0].Crash()
			list[1].Crash()
			return n
		},
		"its packets and streams get lost one way": func(s *sim.Sim) *sim.Node {
			for i := range s.Nodes() {
				for j := range s.Nodes() {
					if i < j {
						s.Faults(i, j, transport.Faults{Cut: true})
					}
				}
			}
			time.Sleep(time.Second)
			return s.Node(1)
		},
		"its disk is slow": func(s *sim.Sim) *sim.Node {
			n := s.RaftLeader()
			n.SlowDisk(700 * time.Millisecond)
			return n
		},
		"waiting for peers that do not answer": func(s *sim.Sim) *sim.Node {
			for _, n := range s.Nodes() {
				n.Crash()
			}
			s.Node(0).Isolate()
			s.Node(0).Wipe()
			s.Node(0).Open()
			return s.Node(0)
		},
		"everything is slow": func(s *sim.Sim) *sim.Node {
			for i := range s.Nodes() {
				for j := range s.Nodes() {
					s.Faults(i, j, transport.Faults{Delay: 3 * time.Second})
				}
			}
			time.Sleep(time.Second)
			return s.Node(0)
		},
	}
}

func isolated(n *sim.Node) *sim.Node {
	n.Isolate()
	return n
}

func TestCloseIsBoundedInTheWorstStates(t *testing.T) {
	t.Parallel()
	for name, reach := range worstStates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3, Config: testkit.LongTTL}, func(s *sim.Sim) {
				for i, n := range s.Nodes() {
					for k := range 20 {
						testkit.Get(t, n.Cluster(), fmt.Sprint("held/", i, "/", k), holdfast.WithTTL(time.Hour))
					}
				}
				n := reach(s)
				c := n.Cluster()
				var all sync.WaitGroup
				for k := range 20 { // calls that are stuck
					all.Go(func() {
						_, err := c.Acquire(context.Background(), fmt.Sprint("held/", k%3, "/", k))
						if !errors.Is(err, holdfast.ErrClosed) {
							t.Errorf("a call was told %v", err)
						}
					})
				}
				time.Sleep(50 * time.Millisecond)
				began := time.Now()
				for range 3 {
					all.Go(func() { _ = c.Close() })
				}
				<-c.Done()
				if took := time.Since(began); took > 0 {
					t.Errorf("Done took %v", took)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > testkit.CloseBound {
					t.Errorf("Close took %v", took)
				}
				all.Wait()
			})
		})
	}
}
