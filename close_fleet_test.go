package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

func TestCloseGivesTheLeasesBackSoThatAnotherNodeHasThemAtOnce(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		for i, n := range s.Nodes() {
			automatic := get(t, n.Cluster(), "automatic", holdfast.WithTTL(time.Hour))
			manual := get(t, n.Cluster(), "manual", holdfast.WithTTL(time.Hour), holdfast.WithManualRenew())
			other := s.Node((i + 1) % 3).Cluster()
			granted := make(chan *holdfast.Lease, 2)
			var last time.Time
			go func() {
				for _, name := range []string{"automatic", "manual"} {
					l, err := other.Acquire(until(time.Minute), name)
					if err != nil {
						t.Error(err)
					}
					last = time.Now()
					granted <- l
				}
			}()
			time.Sleep(time.Second)
			began := time.Now()
			n.Close() // which takes longer than giving back: gossip may have a probe under way
			l, next := <-granted, <-granted
			if took := last.Sub(began); took > 2*time.Second {
				t.Errorf("node %d: granted again %v after Close", i, took)
			}
			if l.Token() <= automatic.Token() || next.Token() <= manual.Token() {
				t.Errorf("node %d: tokens %d, %d after %d, %d", i, l.Token(), next.Token(), automatic.Token(), manual.Token())
			}
			for _, l := range []*holdfast.Lease{l, next} {
				if err := l.Release(until(time.Minute)); err != nil {
					t.Error(err)
				}
			}
			n.Open()
			n.Ready()
		}
	})
}

// closeBound is what Close may take where waiting, not computing, takes the time: a second for giving the
// leases back, two election timeouts for a raft leader's farewell, and a probe of gossip that is under way.
const closeBound = 5 * time.Second

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
			sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
				for i, n := range s.Nodes() {
					for k := range 20 {
						get(t, n.Cluster(), fmt.Sprint("held/", i, "/", k), holdfast.WithTTL(time.Hour))
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
				if took := time.Since(began); took > closeBound {
					t.Errorf("Close took %v", took)
				}
				all.Wait()
			})
		})
	}
}

func TestANodeOfAFleetLeavesNothingBehindWhicheverIsClosed(t *testing.T) {
	if !alone(t) {
		return
	}
	warm(t)
	leavesNothing(t, "a fleet", func() {
		for range 2 { // the raft leader goes first, then it goes last
			list := fleet(t, 3)
			held := acquire(t, list[1], "held", holdfast.WithTTL(time.Hour))
			leader := list[0].Status().RaftLeader
			slices.SortFunc(list, func(a, b *holdfast.Cluster) int {
				switch leader {
				case a.ID():
					return -1
				case b.ID():
					return 1
				}
				return 0
			})
			if held.Token()%2 == 0 {
				slices.Reverse(list)
			}
			var all sync.WaitGroup
			for _, c := range list { // the last two are without a quorum
				all.Go(func() {
					if _, err := c.Acquire(t.Context(), "held"); !errors.Is(err, holdfast.ErrClosed) && err != nil {
						t.Errorf("a waiter was told %v", err)
					}
				})
				closed(t, c)
			}
			all.Wait()
		}
	})
}

func TestTenClustersRunInOneProcessAndKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := make([]*holdfast.Cluster, 10)
	for i := range list {
		cfg := holdfast.Config{Cluster: fmt.Sprint("cluster", i%5), Logger: quiet()} // five names, two groups of each
		if i%2 == 0 {
			cfg.DataDir = filepath.Join(dir, fmt.Sprint(i))
		}
		c, err := holdfast.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		list[i] = c
	}
	allReady(t, list)
	groups := make(map[string]bool)
	for i, c := range list {
		acquire(t, c, "the same name", holdfast.WithValue([]byte{byte(i)}))
		groups[c.Status().ClusterID] = true
		if m := c.Members(); len(m) != 1 {
			t.Errorf("node %d sees %d members", i, len(m))
		}
	}
	if len(groups) != len(list) {
		t.Errorf("%d groups of %d nodes", len(groups), len(list))
	}
	for i, c := range list[:9] {
		closed(t, c)
		last := list[9]
		if info, err := last.Inspect(within(t, 5*time.Second), "the same name"); err != nil || info.Value[0] != 9 {
			t.Errorf("after %d were closed: %+v, %v", i+1, info, err)
		}
	}
}

func TestTheStandardLoggerStaysAsTheHostHasSetIt(t *testing.T) {
	if !alone(t) {
		return
	}
	// At the start of the program nothing has changed it, although an import tried.
	if log.Flags() != log.LstdFlags || log.Prefix() != "" || log.Writer() != os.Stderr {
		t.Errorf("after the import: flags %d, prefix %q, writer %T", log.Flags(), log.Prefix(), log.Writer())
	}
	var out bytes.Buffer
	log.SetFlags(log.Lmsgprefix)
	log.SetPrefix("host: ")
	log.SetOutput(&out)
	standard := slog.Default()
	list := fleet(t, 3)
	for _, c := range list {
		serves(t, within(t, 20*time.Second), c)
	}
	for _, c := range list {
		closed(t, c)
	}
	if c, err := holdfast.Open(t.Context(), holdfast.Config{Bind: "203.0.113.1:1", Bootstrap: 1, Insecure: true, Logger: quiet()}); err == nil {
		closed(t, c)
	}
	if log.Flags() != log.Lmsgprefix || log.Prefix() != "host: " || log.Writer() != &out || slog.Default() != standard {
		t.Errorf("after Open: flags %d, prefix %q, writer %T", log.Flags(), log.Prefix(), log.Writer())
	}
	log.Print("it works")
	if out.String() != "host: it works\n" {
		t.Errorf("the standard logger got %q", out.String())
	}
}
