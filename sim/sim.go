// Package sim runs a fleet of real nodes in one process under virtual time, for tests: gossip, Raft and
// the locks are the real ones; the network and the disks are in memory and can be cut, crashed and
// wiped; an hour takes seconds. Users test their own services on it:
//
//	func TestMyService(t *testing.T) {
//		sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
//			lease, _ := s.Node(0).Cluster().Acquire(t.Context(), "leader")
//			s.Node(0).Isolate()
//			<-lease.Done() // at the end of its validity, by virtual time
//		})
//	}
//
// Computation takes no virtual time, so a starved processor is not seen here; processes are for that.
// What happens is decided by the seed only in part: the Go scheduler has a say too.
package sim

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/internal/consensus/pooled" // lets bubbles share the log store's pools
	"github.com/holdfast-go/holdfast/transport"
)

// Options describe a fleet. The zero value is a single node.
type Options struct {
	// Nodes is how many nodes there are. Default 1.
	Nodes int
	// Seed decides the faults of the network. Default 1.
	Seed uint64
	// Config may change the configuration of node i; Bind, Join and DataDir are the simulation's own.
	Config func(i int, cfg *holdfast.Config)
	// Late leaves the nodes unopened: the test opens each with Node.Open.
	Late bool
	// Logger receives what the nodes log. Default: nothing.
	Logger *slog.Logger
}

// Sim is a fleet under virtual time. Use it only inside the function given to Run.
type Sim struct {
	t     *testing.T
	opts  Options
	trace *tracer
	net   *transport.Memory
	nodes []*Node

	mu      sync.Mutex
	weather weather
}

// start is where virtual time begins: certificates and the birth of tokens want a year after 2000.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// ending is how long gossip's own goroutines may live on after a node was closed.
const ending = time.Minute

// Run runs f in a bubble of virtual time with a fleet of nodes, opened and ready unless Options.Late, and
// closes them afterwards. f must not call t.Run, t.Parallel or t.Fatal of a subtest, and must end the goroutines it starts.
func Run(t *testing.T, opts Options, f func(s *Sim)) {
	t.Helper()
	if opts.Nodes == 0 {
		opts.Nodes = 1
	}
	if opts.Seed == 0 {
		opts.Seed = 1
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start()))
		seedRuntime(opts.Seed)
		trace, err := newTracer(t.Name())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := trace.close(); err != nil {
				t.Error(err)
			}
		}()
		opts.Logger = slog.New(trace.handler(opts.Logger.Handler()))
		s := &Sim{t: t, opts: opts, trace: trace, net: transport.NewMemory(opts.Seed), weather: newWeather()}
		for i := range opts.Nodes {
			s.nodes = append(s.nodes, newNode(s, i))
		}
		defer s.close()
		if !opts.Late {
			for _, n := range s.nodes {
				n.Open()
			}
			for _, n := range s.nodes {
				n.Ready()
			}
		}
		f(s)
	})
}

// close ends the nodes and lets what is left of them end.
func (s *Sim) close() {
	s.Heal()
	for _, n := range s.nodes {
		n.SlowDisk(0)
		n.Close()
	}
	time.Sleep(ending)
}

// Node returns node i.
func (s *Sim) Node(i int) *Node { return s.nodes[i] }

// Nodes returns all nodes.
func (s *Sim) Nodes() []*Node { return s.nodes }

// RaftLeader waits until a node that runs is raft leader, as most of those that run see it, and returns it.
func (s *Sim) RaftLeader() *Node {
	s.t.Helper()
	for range 1000 {
		votes := make(map[string]int)
		running := 0
		for _, n := range s.nodes {
			if c := n.Cluster(); c != nil {
				running++
				votes[c.Status().RaftLeader]++
			}
		}
		for _, n := range s.nodes {
			if c := n.Cluster(); c != nil && 2*votes[c.ID()] > running {
				return n
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatal("no raft leader within 50 virtual seconds")
	return nil
}

func host(i int) string { return fmt.Sprintf("127.0.1.%d", i+1) }
