package holdfast_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// The random test: a fleet with callers on every node, faults by seed, and a history of all that the
// callers saw, checked for every promise. In the environment:
//
//	HOLDFAST_SEED=7       repeats the run of a seed, as far as the Go scheduler lets it (make sim-exact does exactly)
//	HOLDFAST_SEEDS=100    runs that many seeds
//	HOLDFAST_MINUTES=30   of virtual time for each. Default 2
//	HOLDFAST_LOG=file     file.seed takes what the nodes log, and the history
//
// A run that fails is stored and repeated: see sim.Options.
const (
	minutesVar = "HOLDFAST_MINUTES"
	logVar     = "HOLDFAST_LOG"

	seedsDefault   = 3
	minutesDefault = 2
	driftMax       = 0.04
	resumeMax      = 20 * time.Second
)

func TestRandomFaultsBreakNoPromise(t *testing.T) {
	t.Parallel()
	all := &teeth{count: make(map[history.Kind]int)}
	t.Cleanup(func() {
		if lack := all.lack(); lack != "" && os.Getenv(sim.SeedVar) == "" {
			t.Errorf("runs without teeth: %s in all of them", lack)
		}
	})
	sim.Seeds(t, seedsDefault, func(t *testing.T, seed uint64) {
		nemesisRun(t, seed, time.Duration(fromEnv(t, minutesVar, minutesDefault))*time.Minute, all)
	})
}

// teeth is what happened in all runs together: a single one may well lack something.
type teeth struct {
	mu                     sync.Mutex
	count                  map[history.Kind]int
	expired, jobs, leaders int
}

func (a *teeth) add(count map[history.Kind]int, expired, jobs, leaders int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind, n := range count {
		a.count[kind] += n
	}
	a.expired, a.jobs, a.leaders = a.expired+expired, a.jobs+jobs, a.leaders+leaders
}

// lack is what has happened too seldom to have shown anything.
func (a *teeth) lack() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.count[history.Granted] < 50:
		return "few grants"
	case a.expired == 0:
		return "no lease expired"
	case a.leaders < 10:
		return "few changes of the raft leader"
	case a.count[history.Verified] == 0 || a.count[history.Looked] == 0:
		return "no reads"
	case a.jobs == 0:
		return "no jobs"
	}
	return ""
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
	ttl   time.Duration
	base  transport.Faults // what the network is like when it is well
	rec   *history.Recorder
	begin time.Time

	stop     chan struct{} // of the faults
	rest     chan struct{} // of the callers
	healing  sync.WaitGroup
	watching sync.WaitGroup

	leaders atomic.Int64 // changes of the raft leader, as all nodes saw them
	faults  atomic.Int64
	running atomic.Int64 // faults in force
	sets    atomic.Int64
	jobs    atomic.Int64 // that were run

	mu      sync.Mutex
	ill     []int // faults that touch each node
	well    []bool
	quorum  bool
	busy    []bool // a fault has the node's life in its hands
	ids     []string
	network bool // a fault has the network in its hands
	rates   []float64
	tenures map[*tenure]struct{}
}

func nemesisRun(t *testing.T, seed uint64, d time.Duration, all *teeth) {
	fmt.Fprintf(os.Stderr, "%s=%d\n", sim.SeedVar, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	x := &nemesis{
		t: t, log: io.Discard, ttl: []time.Duration{2 * time.Second, 4 * time.Second}[r.IntN(2)],
		base:    transport.Faults{Delay: time.Duration(r.IntN(2000)) * time.Microsecond, Jitter: time.Duration(r.IntN(3000)) * time.Microsecond},
		tenures: make(map[*tenure]struct{}),
	}
	opts := sim.Options{Nodes: []int{3, 3, 5}[r.IntN(3)], Seed: seed, Config: x.config, Late: true}
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
	x.rates, x.ids = make([]float64, opts.Nodes), make([]string, opts.Nodes)
	began := time.Now()
	var figures string
	sim.Run(t, opts, func(s *sim.Sim) {
		x.s, x.begin = s, time.Now()
		x.stop, x.rest = make(chan struct{}), make(chan struct{})
		x.rec = history.NewRecorder(func() time.Duration { return time.Since(x.begin) })
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
	c.TTL, c.MaxClockDrift = x.ttl, driftMax
	c.Events.RaftLeader = func(id string) {
		if id != "" {
			x.leaders.Add(1)
		}
	}
}

// run opens the fleet, lets callers and faults loose, ends the faults, and demands service.
func (x *nemesis) run(r *rand.Rand, d time.Duration) {
	x.calm()
	for i := range x.s.Nodes() {
		x.ill[i] = 1
		x.drift(r, i)
		x.open(i)
		x.recover(i)
	}
	x.healing.Wait()
	var callers sync.WaitGroup
	for i := range x.s.Nodes() {
		for range 3 {
			own := rand.New(rand.NewPCG(r.Uint64(), 2))
			callers.Go(func() { x.caller(i, own) })
		}
		running := rand.New(rand.NewPCG(r.Uint64(), 4))
		callers.Go(func() { x.runner(i, running) })
	}
	watching := rand.New(rand.NewPCG(r.Uint64(), 3))
	callers.Go(func() { x.watch(watching) })
	x.harm(r, d)

	x.calm()
	x.rec.Add(history.Event{Kind: history.Over})
	var served sync.WaitGroup
	for i := range x.s.Nodes() {
		served.Go(func() { x.serve(i) })
	}
	served.Wait()
	close(x.rest)
	callers.Wait()
	x.healing.Wait()
	x.watching.Wait()
	x.takeAll()
}

// serve takes and releases a lock of the node's own until that works once.
func (x *nemesis) serve(i int) {
	ctx := until(2 * resumeMax)
	for ctx.Err() == nil {
		if c := x.s.Node(i).Cluster(); c != nil {
			if l, err := c.Acquire(until(time.Second), fmt.Sprint("own", i)); err == nil && l.Release(until(time.Second)) == nil {
				x.rec.Add(history.Event{Kind: history.Served, Node: i})
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// takeAll acquires every lock whole on every node: nothing may be stuck.
func (x *nemesis) takeAll() {
	for i, n := range x.s.Nodes() {
		if n.Cluster() == nil {
			continue // it could not be opened, which was told
		}
		for _, k := range kinds() {
			opts := []holdfast.Option{}
			if k.limit > 1 {
				opts = append(opts, holdfast.WithLimit(k.limit), holdfast.WithWeight(k.limit))
			}
			l, err := n.Cluster().Acquire(until(x.ttl+lateMax), k.name, opts...)
			if err != nil {
				info, _ := n.Cluster().Inspect(until(time.Second), k.name)
				x.t.Errorf("at the end %s cannot be had on node %d: %v\n%+v", k.name, i, err, info)
				continue
			}
			if err := l.Release(until(time.Second)); err != nil {
				x.t.Errorf("at the end %s cannot be released on node %d: %v", k.name, i, err)
			}
		}
	}
}

// report checks the history, adds what happened to that of the other runs, and answers the figures.
func (x *nemesis) report(seed uint64, nodes int, took time.Duration, all *teeth) string {
	h := x.rec.Events()
	if err := x.write(x.log); err != nil {
		x.t.Error(err)
	}
	found := history.Check(h, history.Bounds{TTL: x.ttl, Late: lateMax, Answer: 100 * time.Millisecond, Resume: resumeMax})
	for i, v := range found {
		x.t.Errorf("%s=%d: %v", sim.SeedVar, seed, v)
		if i == 0 {
			for _, e := range history.About(h, v.Lock, v.At, 60) {
				x.t.Log(e)
			}
		}
	}
	count := make(map[history.Kind]int)
	expired := 0
	for _, e := range h {
		count[e.Kind]++
		if e.Kind == history.Ended && e.Cause == history.CauseExpired {
			expired++
		}
	}
	all.add(count, expired, int(x.jobs.Load()), int(x.leaders.Load()))
	return fmt.Sprintf("seed %d: %d nodes, %v: %d calls, %d grants, %d expired, %d verified, %d looks, %d values, %d jobs, %d faults, %d changes of raft leader, %d violations",
		seed, nodes, took.Round(time.Second), count[history.Asked], count[history.Granted], expired,
		count[history.Verified], count[history.Looked], count[history.Done], x.jobs.Load(), x.faults.Load(), x.leaders.Load(), len(found))
}

// sleep lets virtual time pass.
func (x *nemesis) sleep(d time.Duration) { time.Sleep(d) }
