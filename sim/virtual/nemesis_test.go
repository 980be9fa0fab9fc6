package virtual_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
	"github.com/holdfast-go/holdfast/transport"
)

// The random test: a fleet with callers on every node, faults by seed, and a history of all that
// the callers saw, checked for every promise. In the environment:
//
//	HOLDFAST_SEED=7       repeats the run of a seed, as far as the Go scheduler lets it
//	HOLDFAST_SEEDS=100    runs that many seeds
//	HOLDFAST_MINUTES=30   of virtual time for each. Default 2
//	HOLDFAST_PACE=sparse  few calls, long TTLs and faults up to hours. Default dense; then of 240 minutes
//	HOLDFAST_CLIENTS=2    of nodes without a replica, beside the others. Default none, one or two
//	HOLDFAST_LOG=file     file.seed takes what the nodes log, and the history
//	HOLDFAST_HISTORY=dir  dir takes the history, for sim/porcupine
//
// A run that fails is stored and repeated: see sim.Options.
const (
	minutesVar = "HOLDFAST_MINUTES"
	paceVar    = "HOLDFAST_PACE"
	clientsVar = "HOLDFAST_CLIENTS"
	logVar     = "HOLDFAST_LOG"
	historyVar = "HOLDFAST_HISTORY"

	seedsDefault = 3
	driftMax     = 0.04
	longWait     = 2 * time.Minute // the longest TTL whose end is waited for when all is over
	resumeMax    = 20 * time.Second
	levelOfAll   = fsm.LevelKnown + 1
)

func TestRandomFaultsBreakNoPromise(t *testing.T) {
	t.Parallel()
	all, p := &totals{}, paceFromEnv(t)
	t.Cleanup(func() {
		if lack := all.shortfall(p.least); lack != "" && os.Getenv(sim.SeedVar) == "" {
			t.Errorf("vacuous runs: %s in all of them", lack)
		}
	})
	sim.Seeds(t, seedsDefault, func(t *testing.T, seed uint64) {
		nemesisRun(t, seed, p, time.Duration(fromEnv(t, minutesVar, p.minutes))*time.Minute, all)
	})
}

// totals is what happened in all runs together: a single one may well lack something.
type totals struct {
	mu      sync.Mutex
	figures history.Figures
}

func (a *totals) add(f history.Figures) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Merge(f)
}

// shortfall is what has happened too seldom to have shown anything.
func (a *totals) shortfall(least history.Figures) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.figures.Shortfall(least)
}

func fromEnv(t *testing.T, name string, value int) int {
	t.Helper()
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return value
}

// nemesis is one run.
type nemesis struct {
	t     *testing.T
	s     *sim.Sim
	log   io.Writer
	pace  pace
	ttl   time.Duration
	late  time.Duration // lateMax, or more where the group's timing is slow
	timed holdfast.Timing
	base  transport.Faults // what the network is like when it is well
	rec   *history.Recorder
	begin time.Time
	work  *workload.Workload
	users []*workload.Node // of each node

	machines int // on the last of which nothing runs at first; what follows are ClientOnly
	replicas int // Config.Replicas

	stop     chan struct{} // of the faults
	healing  sync.WaitGroup
	watching sync.WaitGroup

	leaders  atomic.Int64 // changes of the raft leader, as all nodes saw them
	faults   atomic.Int64
	running  atomic.Int64 // faults in force
	restores atomic.Int64
	left     atomic.Int64 // nodes that the group let go
	became   atomic.Int64 // clients by Config.Replicas
	formed   atomic.Bool
	awaited  atomic.Bool // a restore waits until no fault has the life of a node in its hands

	mu      sync.Mutex
	ill     []int // faults that touch each node
	well    []bool
	quorum  bool
	bound   []bool // the node is a client, and not ClientOnly
	stormy  []bool // the network about the node is lossy and slow
	busy    []bool // a fault has the node's life in its hands
	ids     []string
	network bool     // a fault has the network in its hands
	former  []string // the node that each machine has or had a copy of
	vacant  []bool   // nothing runs there, until a disk is brought there
	proof   []bool   // what starts there next proves that what ran before is dead
	leaving int      // faults in which nodes leave
	doubled int      // disks of which a copy is open while their processes may live

	clocks sync.Mutex // the last lock that is taken
	rates  []float64
}

func nemesisRun(t *testing.T, seed uint64, p pace, d time.Duration, all *totals) {
	fmt.Fprintf(os.Stderr, "%s=%d\n", sim.SeedVar, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	x := &nemesis{
		t: t, log: io.Discard, pace: p, ttl: p.ttls[r.IntN(len(p.ttls))],
		base: transport.Faults{Delay: time.Duration(r.IntN(2000)) * time.Microsecond, Jitter: time.Duration(r.IntN(3000)) * time.Microsecond},
	}
	long := p.longs[r.IntN(len(p.longs))]
	x.timed = p.timing(r)
	x.late = testkit.LateMax + slower(x.timed)
	x.machines = 1 + []int{3, 4, 5}[r.IntN(3)]
	x.replicas = []int{0, 4}[seed/9%2]
	opts := sim.Options{Nodes: x.machines + fromEnv(t, clientsVar, int(seed/3%3)), Seed: seed, Config: x.config, Late: true, SnapshotEvery: []int{0, 100, 300}[seed%3]}
	if seed%2 == 0 {
		opts.Env = versions
	}
	if name := os.Getenv(logVar); name != "" {
		f, err := os.Create(fmt.Sprint(name, ".", seed))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		x.log = f
		opts.Logger = slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	x.ill, x.well, x.busy = make([]int, opts.Nodes), make([]bool, opts.Nodes), make([]bool, opts.Nodes)
	x.stormy, x.bound = make([]bool, opts.Nodes), make([]bool, opts.Nodes)
	x.rates, x.ids = make([]float64, opts.Nodes), make([]string, opts.Nodes)
	x.vacant, x.proof = make([]bool, opts.Nodes), make([]bool, opts.Nodes)
	x.former = make([]string, opts.Nodes)
	began := time.Now()
	var figures string
	sim.Run(t, opts, func(s *sim.Sim) {
		x.s, x.begin = s, time.Now()
		x.stop = make(chan struct{})
		x.employ(long)
		s.Attach("calls", x.write)
		x.run(r, d)
		figures = x.report(seed, opts.Nodes, time.Since(x.begin), all)
	})
	t.Logf("%s; in %v", figures, time.Since(began).Round(time.Millisecond))
}

// write writes what the callers saw.
func (x *nemesis) write(w io.Writer) error {
	for _, e := range x.rec.Events() {
		if _, err := fmt.Fprintln(w, e); err != nil {
			return err
		}
	}
	return nil
}

func (x *nemesis) config(i int, c *holdfast.Config) {
	c.TTL, c.MaxTTL, c.MaxClockDrift, c.Timing, c.HoldLevel = x.ttl, holdfast.TTLMax, driftMax, x.timed, levelOfAll
	c.Replicas = x.replicas
	if c.ClientOnly = x.client(i); !c.ClientOnly && x.formed.Load() { // three new nodes that meet in one part of the network would be another group
		c.Bootstrap = -1
	}
	c.Events.RaftLeader = func(id string) {
		if id != "" {
			x.leaders.Add(1)
		}
	}
}

// versions makes a fleet of two versions, of which one knows a level more. The group rises to the level
// that both know in the middle of the faults, if all nodes are there for a second, and stays there.
func versions(i int, env *simenv.Env) {
	env.Level, env.LevelPause = levelOfAll+uint64(i%2), time.Second
}

// client reports whether a node is ClientOnly. It has no disk, and each of its processes is a new node.
func (x *nemesis) client(i int) bool { return i >= x.machines }

// far reports whether a node has no replica now: it is ClientOnly, or the group has its Config.Replicas.
func (x *nemesis) far(i int) bool {
	c := x.s.Node(i).Cluster()
	return x.client(i) || c != nil && c.Status().Role == holdfast.RoleClient
}

// mayBeFar reports whether a node has no replica at some time.
func (x *nemesis) mayBeFar(i int) bool {
	return x.client(i) || x.machines > cmp.Or(x.replicas, 5)
}

func (x *nemesis) clients() int { return len(x.s.Nodes()) - x.machines }

// run opens the fleet, lets callers and faults loose, ends the faults, and demands service.
func (x *nemesis) run(r *rand.Rand, d time.Duration) {
	x.calm()
	for i := range x.s.Nodes() {
		x.ill[i] = 1
		x.drift(r, i)
		if x.vacant[i] = i == x.machines-1; x.vacant[i] {
			continue
		}
		x.open(i)
		x.recover(i)
	}
	x.healing.Wait()
	x.formed.Store(true)
	x.begins(r)
	x.inject(r, d)

	x.calm()
	x.settleIn()
	x.rec.Add(history.Event{Kind: history.Over})
	x.each(func(n *workload.Node) { n.Serve(testkit.Until(2 * (resumeMax + slower(x.timed)))) })
	x.sleep(4 * x.ttl) // who asked while there were faults is served, or gives up
	x.work.Rest()
	x.healing.Wait()
	x.watching.Wait()
	for _, n := range x.users {
		n.Drain()
	}
	x.each(func(n *workload.Node) { n.Settle() })
	x.sleep(x.late + time.Second)
	x.work.Close()
}

// each does something on all nodes at once.
func (x *nemesis) each(do func(*workload.Node)) {
	var doing sync.WaitGroup
	for _, n := range x.users {
		doing.Go(func() { do(n) })
	}
	doing.Wait()
}

// report checks the history, adds what happened to that of the other runs, and returns the figures.
func (x *nemesis) report(seed uint64, nodes int, took time.Duration, all *totals) string {
	h := x.rec.Events()
	if err := x.write(x.log); err != nil {
		x.t.Error(err)
	}
	if dir := os.Getenv(historyVar); dir != "" {
		text, err := json.Marshal(h)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprint(seed, ".json")), text, 0o600)
		}
		if err != nil {
			x.t.Error(err)
		}
	}
	found := history.Check(h, history.Bounds{TTL: x.ttl, Late: x.late, Answer: 100 * time.Millisecond, Resume: resumeMax + slower(x.timed), Drift: driftMax, Client: x.mayBeFar})
	found = append(found, workload.Checkpoints(h)...)
	for i, v := range found {
		x.t.Errorf("%s=%d: %v", sim.SeedVar, seed, v)
		if i == 0 {
			for _, e := range history.About(h, v.Lock, v.At, 60) {
				x.t.Log(e)
			}
		}
	}
	f := history.Measure(h)
	f.Leaders = int(x.leaders.Load())
	all.add(f)
	return fmt.Sprintf("seed %d: %s, %d nodes of which %d are clients, at level %d, %v: %d calls, %d grants (%d sets, %d rests, %d for long), %d expired, %d freed, %d revoked, "+
		"%d verified, %d looks, %d values, %d jobs, "+
		"%d leaders read, %d observed, %d told, %d gaps, %d faults, %d restores, %d left, %d clients by the bound, %d changes of raft leader, %d violations",
		seed, x.pace.name, nodes, x.clients(), x.level(), took.Round(time.Second), f.Calls, f.Grants, f.Wholes, f.Rests, f.Longs, f.Expired, f.Freed, f.Revoked, f.Verified, f.Looked, f.Sets, f.Runs,
		f.LeaderReads, f.Observed, f.Told, f.Resyncs, x.faults.Load(), x.restores.Load(), x.left.Load(), x.became.Load(), f.Leaders, len(found))
}

// level is that of the group, as far as its nodes know.
func (x *nemesis) level() (highest uint64) {
	for _, n := range x.s.Nodes() {
		if c := n.Cluster(); c != nil {
			highest = max(highest, c.Status().Level)
		}
	}
	return highest
}

// survey looks again and again whether a majority is well: nobody says when that changes with who
// votes and who has a replica.
func (x *nemesis) survey() {
	for !x.resting() {
		x.sleep(x.pace.survey)
		x.change(func() {})
	}
}

// sleep lets virtual time pass.
func (x *nemesis) sleep(d time.Duration) { time.Sleep(d) }
