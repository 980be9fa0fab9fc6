package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// watched is what each node told of its illness.
type watched struct {
	mu    sync.Mutex
	words map[int][]string // by node: why, and "" when it was well again
}

func (w *watched) config(i int, cfg *holdfast.Config) {
	cfg.Events.Ill = func(ill bool, why string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.words[i] = append(w.words[i], why)
	}
}

func (w *watched) of(i int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.words[i]...)
}

// polled polls Status of a node each tenth of a second, and returns how often Ready was true, of how
// many times, and the last Waits.
func polled(n *sim.Node, d time.Duration) (ready, samples int, waits string) {
	for range d / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond)
		st := n.Cluster().Status()
		if samples++; st.Ready {
			ready++
		}
		waits = st.Waits
	}
	return ready, samples, waits
}

func follower(s *sim.Sim) *sim.Node {
	leader := s.RaftLeader()
	for _, n := range s.Nodes() {
		if n != leader {
			return n
		}
	}
	return nil
}

// busy has a node take and release locks until the function that it returns is called.
func busy(n *sim.Node) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			lease, err := n.Cluster().Acquire(ctx, "busy", holdfast.WithValue([]byte(strings.Repeat("x", 1000))))
			if err == nil {
				_ = lease.Release(ctx)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}

// A raft leader that three of five voters hear, and are sent nothing large by, commits nothing. The
// fourth has its whole log.
func TestARaftLeaderThatCommitsNothingStepsDown(t *testing.T) {
	t.Parallel()
	config := func(_ int, cfg *holdfast.Config) { cfg.Voters, cfg.Bootstrap = 5, 5 }
	sim.Run(t, sim.Options{Nodes: 5, Config: config}, func(s *sim.Sim) {
		leader, left := s.RaftLeader(), 3
		for _, n := range s.Nodes() {
			if n != leader && left > 0 {
				left--
				s.Faults(leader.Index(), n.Index(), transport.Faults{Large: 600})
			}
		}
		defer busy(leader)()
		time.Sleep(5 * time.Second)
		if now := s.RaftLeader(); now == leader {
			t.Errorf("it leads on, and waits for %q", leader.Cluster().Status().Waits)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if _, err := follower(s).Cluster().Acquire(ctx, "served"); err != nil {
			t.Error(err)
		}
	})
}

// Before, a raft leader whose machine lost all large packets led on for as long as that lasted: its heartbeats
// passed, no voter had its whole log, and the fleet was not served.
func TestARaftLeaderThatSendsNothingLargeToAnybodyIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 5} {
		config := func(_ int, cfg *holdfast.Config) { cfg.Voters, cfg.Bootstrap = nodes, nodes }
		sim.Run(t, sim.Options{Nodes: nodes, Config: config}, func(s *sim.Sim) {
			lossy := s.RaftLeader()
			large := func(max int) {
				for _, n := range s.Nodes() {
					if n != lossy {
						s.Faults(lossy.Index(), n.Index(), transport.Faults{Large: max})
						s.Faults(n.Index(), lossy.Index(), transport.Faults{Large: max})
					}
				}
			}
			large(600)
			defer busy(lossy)()
			time.Sleep(5 * time.Second)
			for _, n := range s.Nodes() {
				if n == lossy {
					continue
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				if _, err := n.Cluster().Acquire(ctx, fmt.Sprint("served ", n.Index())); err != nil {
					t.Errorf("of %d nodes, node %d: %v", nodes, n.Index(), err)
				}
				cancel()
			}
			large(0)
			time.Sleep(10 * time.Second)
			if ready, samples, waits := polled(lossy, 5*time.Second); ready != samples || waits != "" {
				t.Errorf("after the end Ready in %d of %d samples; it waits for %q", ready, samples, waits)
			}
		})
	}
}

// Found by chaos with disks put back: a standby was not ready, and Status.Waits was empty. It is ready
// for the first time when the voters are complete, so that a roll stops where one of them is gone.
func TestANodeThatWaitsForTheVotersSaysSo(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4}, func(s *sim.Sim) {
		var dead, starts *sim.Node
		for _, n := range s.Nodes() {
			if n.Cluster().Status().Role == holdfast.RoleStandby {
				starts = n
			} else {
				dead = n
			}
		}
		dead.Kill()
		starts.Close()
		time.Sleep(10 * time.Second) // until gossip has seen both go
		starts.Open()
		ready, _, waits := polled(starts, 5*time.Second)
		if ready > 0 || !strings.Contains(waits, "of the 3 voters of its group 2 are here, and it shall have 3") {
			t.Errorf("beside a dead voter Ready in %d samples; it waits for %q", ready, waits)
		}
		starts.Ready() // in the place of the dead one
		if _, _, waits := polled(starts, time.Second); waits != "" {
			t.Errorf("it is ready, and waits for %q", waits)
		}
	})
}

// A machine that was suspended finds all that it has waited for old, and its connections dead.
func TestAHealthyNodeNeverCallsItselfIll(t *testing.T) {
	t.Parallel()
	w := &watched{words: make(map[int][]string)}
	sim.Run(t, sim.Options{Nodes: 3, Config: w.config}, func(s *sim.Sim) {
		for _, n := range s.Nodes() {
			defer busy(n)()
			n.SlowDisk(30 * time.Millisecond)
		}
		for i := range 60 {
			n := s.Node(s.Chance(3))
			if i%2 == 0 {
				n.Suspend(time.Duration(1+s.Chance(5000)) * time.Millisecond)
			}
			time.Sleep(time.Duration(s.Chance(5000)) * time.Millisecond)
		}
		for i := range s.Nodes() {
			if said := w.of(i); len(said) > 0 {
				t.Errorf("node %d: %q", i, said)
			}
		}
	})
}
