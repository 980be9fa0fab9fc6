// Package sim runs a fleet of real nodes in one process under virtual time, for tests: gossip, Raft
// and the locks are the real ones; the network and the disks are in memory and can be cut, crashed
// and wiped; an hour takes seconds. Users test their own services on it:
//
//	func TestTwoNeverBillAtOnce(t *testing.T) {
//		sim.Run(t, sim.Options{Nodes: 3, Service: func(ctx context.Context, n *sim.Node, c *holdfast.Cluster) error {
//			return billing.Run(ctx, c, ledgerOf(n)) // the service under test, with a ledger that enters the section
//		}}, func(s *sim.Sim) {
//			s.Nemesis(time.Hour) // of virtual time, with faults by the seed
//		})
//	}
//
// The ledger says when the service is in its critical section, and that is the check that two never
// were:
//
//	defer n.Section("billing").Enter(ctx, lease.Token())()
//
// # Faults
//
// Of the network: [Sim.Partition], [Sim.Cut] (one way), [Sim.Refuse], [Node.Isolate], [Sim.Faults] (delay, loss,
// duplicates, reordering, resets, loss of what is large), [Node.CutGossip], [Node.CutRaft]. Of a node: [Node.Pause] (its
// clock goes on), [Node.Freeze] (its clocks do not), [Node.Kill] (the process ends), [Node.Crash] (the power fails), [Node.Wipe] (the
// disk is lost), [Node.Restart], [Node.SlowDisk], [Node.HangDisk], [Node.FullDisk], [Node.Drift] (of
// the clock), [Node.Suspend] (of the machine), [Node.CopyDisk] (opened elsewhere). [Sim.Nemesis] does them by
// the seed, and, if asked, an operator's revocation or a freeze. By the test alone: [Node.Backup] and
// [Node.Restore] of the disk, [Node.WallClock].
//
// # What operators do
//
// [Node.Leave], [Node.Replace] (another machine), [Node.Reimage] (made anew at its address),
// [Sim.Roll] (a rolling update), [Sim.Scale], [Sim.Add], and [Sim.AtOnce] for what is done to
// several at one moment; with [Options].Diskless on nodes without disks. Nemesis does these, too,
// as far as the group can spare the nodes.
//
// # When a run fails
//
// Its schedule of faults, its history and the logs are stored and the directory is printed; and the
// run is repeated some times to learn how often it fails, because what happens is decided by the
// seed only in part: the Go scheduler has a say too.
//
// Computation takes no virtual time, so a starved processor is not seen here; processes are for
// that. See docs/simulation.md.
package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/internal/consensus/preinit/pooled" // lets bubbles share the log store's pools
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// Options describe a fleet. The zero value is a single node.
type Options struct {
	// Nodes is how many nodes there are. Default 1.
	Nodes int
	// Seed decides the faults of the network and of Nemesis. Default: HOLDFAST_SEED in the
	// environment, else 1.
	Seed uint64
	// Config may change the configuration of node i; Bind, Join and DataDir are the simulation's
	// own. A client (holdfast.Config.ClientOnly) is a node, too: let it be one of the last.
	Config func(i int, cfg *holdfast.Config)
	// Env may change what node i runs on, for the tests of this module: no Config says such things.
	Env func(i int, env *simenv.Env)
	// Service is what runs on each node beside its Cluster, from each Open on. ctx ends with the
	// node's process: when it is closed, in good order, before the Cluster is; when it crashes, at
	// the same moment. Service must return then. An error while the node lives fails the test.
	// Default: nothing.
	Service func(ctx context.Context, n *Node, c *holdfast.Cluster) error
	// Diskless nodes have no DataDir: whatever ends one, it comes back as a new node. Default: each
	// has a disk.
	Diskless bool
	// SnapshotEvery is how many commands lie between two snapshots of the replicated state: with
	// few, a node that was away is given the state as a whole. SlowDisk does nothing then, and a
	// node that is paused may write what it had received. Default: as many as ever, more than a
	// short run has.
	SnapshotEvery int
	// Late leaves the nodes unopened: the test opens each with Node.Open.
	Late bool
	// Logger receives what the nodes log. Default: nothing. What is Info or more is in the stored
	// history anyway.
	Logger *slog.Logger
	// Dir is where a failed run is stored, in a directory of its own. Default: HOLDFAST_SIM_DIR,
	// else holdfast-sim in the directory for temporary files.
	Dir string
	// Repeat is how often a failed run is repeated, in processes of their own, to learn how often
	// it fails; less than 0 is not at all. It takes five minutes of real time at most. Default:
	// HOLDFAST_REPEAT, else 5.
	Repeat int
}

// Sim is a fleet under virtual time. Use it only inside the function given to Run.
type Sim struct {
	t       *testing.T
	ctx     context.Context // of the bubble
	cancel  context.CancelFunc
	opts    Options
	history *history
	begin   time.Time
	net     *transport.Memory
	nodes   []*Node       // under mu, where it grows
	hosts   int           // that were ever used, under mu
	lots    *rand.Rand    // of Nemesis
	disks   atomic.Uint64 // that were made

	mu       sync.Mutex
	network  networkFaults
	sections map[string]*Section
}

// start is where virtual time begins: certificates and the birth of tokens want a year after 2000.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// ending is how long gossip's own goroutines may live on after a node was closed.
const ending = time.Minute

// Run runs f in a bubble of virtual time (testing/synctest) with a fleet of nodes, opened and ready
// unless Options.Late, and closes them afterwards. f must not call t.Run, t.Parallel or
// t.Context (Sim.Context takes its place), and must end the goroutines it starts. If the test fails meanwhile, the run is stored and repeated as
// Options say.
func Run(t *testing.T, opts Options, f func(s *Sim)) {
	t.Helper()
	opts = opts.withDefaults(t)
	failedBefore, finished := t.Failed(), false
	h := &history{}
	defer func() { // also when f gives up, and when the bubble panics because of a deadlock
		if !failedBefore && !t.Skipped() && (t.Failed() || !finished) {
			h.told(t, opts)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start()))
		s := newSim(t, opts, h)
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
	finished = true
}

func newSim(t *testing.T, opts Options, h *history) *Sim {
	t.Helper()
	s := &Sim{
		t: t, opts: opts, history: h, begin: time.Now(), net: transport.NewMemory(opts.Seed),
		lots: rand.New(rand.NewPCG(opts.Seed, 0)), network: newNetworkFaults(), sections: make(map[string]*Section),
	}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	logs := slog.DiscardHandler
	if opts.Logger != nil {
		logs = opts.Logger.Handler()
	}
	s.opts.Logger = slog.New(s.handler(logs))
	for i := range opts.Nodes {
		s.nodes = append(s.nodes, newNode(s, i))
	}
	return s
}

// Context belongs to the bubble and ends when f has returned, before the nodes are closed. It is for
// calls and goroutines of the test, in place of t.Context of the test that calls Run: a call that
// waits for that one inside the bubble ends the whole test binary. Node.Context ends with what runs
// on a node.
func (s *Sim) Context() context.Context { return s.ctx }

func (s *Sim) close() {
	s.cancel()
	synctest.Wait() // so that what ended with the context sees living nodes
	s.Heal()
	var services sync.WaitGroup // they end while all nodes are there
	for _, n := range s.nodes {
		n.SlowDisk(0)
		n.HangDisk(false)
		n.Resume()
		if l := n.running(); l != nil {
			services.Go(l.end)
		}
	}
	services.Wait()
	for _, n := range s.nodes {
		n.Close()
	}
	time.Sleep(ending)
}

// Node returns node i.
func (s *Sim) Node(i int) *Node { return s.nodes[i] }

// Nodes returns all nodes.
func (s *Sim) Nodes() []*Node { return s.nodes }

// RaftLeader waits until a node that runs is raft leader, as most of those that run see it, and
// returns it.
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

// Chance returns a number from 0 to n-1 by the seed, for a test's own choices. It is for one
// goroutine at a time.
func (s *Sim) Chance(n int) int { return s.lots.IntN(n) }
