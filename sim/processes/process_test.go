//go:build unix

package processes_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
	"github.com/holdfast-go/holdfast/transport"
)

// processVar makes the test binary run as one process of a fleet; its value is the process's
// Config.
const processVar = "HOLDFAST_TEST_PROCESS"

// processConfig is what a test may choose of a process's Config.
type processConfig struct {
	Name, DataDir string
	Cluster       string // "": as by default
	Join, Secrets []string
	Bootstrap     int
	Voters        int                    // 0: as by default
	Bind          string                 // "": a port of the system's choice
	Advertise     string                 // "": what it listens at
	Routes        map[string]relay.Route // nil: it reaches the others without a relay
	ReplaceAfter  time.Duration          // 0: as by default
	MaxTTL        time.Duration          // 0: the longest
	Election      time.Duration          // 0: as by default
	Restore       string                 // file with a backup
	SnapshotEvery uint64                 // 0: as by default
}

// order is what a test asks of a process.
type order struct {
	Op      string
	Name    string
	Token   holdfast.Token
	Value   []byte
	TTL     time.Duration
	Timeout time.Duration
}

// answer is what it says.
type answer struct {
	Err      string
	Lost     bool // the error is ErrLost, …
	NoQuorum bool
	Stale    bool
	Foreign  bool // ErrIncompatible
	Node     string
	Addr     string
	Token    holdfast.Token
	Valid    bool
	Left     time.Duration // of the lease's validity: Lease.Remaining
	Done     bool
	Share    float64       // of the machine, that the process had
	Worst    time.Duration // that it had to wait for the machine
	Info     holdfast.LockInfo
	Listens  string // with Routes: where the relay finds it
	Status   status
}

// status is a part of holdfast.Status.
type status struct {
	RaftLeader       string
	Term             uint64 // of that leader
	Voters, Standbys []string
	Sights           []holdfast.Replica // of the voters
	Ready            bool
	Waits            string
	Illnesses        uint64
	LateMax          time.Duration
}

// member is the main function of a process of the fleet. It ends with its standard input.
func member() int {
	var cfg processConfig
	if err := json.Unmarshal([]byte(os.Getenv(processVar)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var backup io.Reader // nil: none
	if cfg.Restore != "" {
		file, err := os.Open(cfg.Restore)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer file.Close()
		backup = file
	}
	r := &remote{leases: make(map[string]*holdfast.Lease)}
	env := simenv.Env{SnapshotEvery: cfg.SnapshotEvery, SnapshotKeep: cfg.SnapshotEvery / 8}
	if cfg.Routes != nil {
		env.Network = relay.Detour(transport.TCP(), cfg.Routes, func(addr string) { r.listens = addr })
	}
	c, err := holdfast.Open(simenv.With(context.Background(), env), holdfast.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Cluster: cfg.Cluster, Name: cfg.Name, DataDir: cfg.DataDir, Join: cfg.Join, Bootstrap: cfg.Bootstrap, Secrets: cfg.Secrets,
		Voters: cfg.Voters, Bind: cfg.Bind, Advertise: cfg.Advertise, ReplaceAfter: cfg.ReplaceAfter, MaxTTL: cmp.Or(cfg.MaxTTL, holdfast.TTLMax), Restore: backup,
		Timing: holdfast.Timing{Election: cfg.Election},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	if file, ok := strings.CutPrefix(cfg.Join[0], "file+"); ok { // where the others find this process's address
		if err := process.AppendLine(file, c.Addr()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	r.c = c
	if err := process.Serve(os.Stdin, os.Stdout, r.do); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

func statusOf(s holdfast.Status) status {
	return status{
		RaftLeader: s.RaftLeader, Term: s.Term, Voters: testkit.IDs(s.Voters), Standbys: testkit.IDs(s.Standbys), Sights: s.Voters,
		Ready: s.Ready, Waits: s.Waits, Illnesses: s.Metrics.Illnesses, LateMax: highest(s.Metrics.Expiries),
	}
}

// remote carries out orders.
type remote struct {
	c       *holdfast.Cluster
	listens string
	mu      sync.Mutex
	leases  map[string]*holdfast.Lease
}

func (r *remote) lease(name string) *holdfast.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[name]
}

func (r *remote) do(o order) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	a.Node, a.Addr, a.Listens = r.c.ID(), r.c.Addr(), r.listens
	var err error
	switch o.Op {
	case "ready":
		err = r.c.Ready(ctx)
	case "acquire":
		var l *holdfast.Lease
		l, err = r.c.Acquire(ctx, o.Name, holdfast.WithTTL(o.TTL))
		if err == nil {
			r.mu.Lock()
			r.leases[o.Name] = l
			r.mu.Unlock()
			a.Token = l.Token()
		}
	case "look": // at a lease
		l := r.lease(o.Name)
		a.Left, a.Valid = l.Remaining(), l.Valid()
		err = l.Err()
		select {
		case <-l.Done():
			a.Done = true
		default:
		}
	case "turn": // with a lock: taken, used for a moment, and given back
		a.Token, err = r.turn(ctx, o)
	case "load": // for a while, with 64 callers, each on its lock
		err = r.load(o)
	case "backup": // into the file of that name
		var file *os.File
		if file, err = os.Create(o.Name); err == nil {
			err = errors.Join(r.c.Backup(ctx, file), file.Close())
		}
	case "leave":
		err = r.c.Leave(ctx)
	case "release":
		err = r.lease(o.Name).Release(ctx)
	case "set":
		err = r.lease(o.Name).Set(ctx, o.Value)
	case "verify":
		err = r.c.Verify(ctx, o.Name, o.Token)
	case "inspect":
		a.Info, err = r.c.Inspect(ctx, o.Name)
	case "end": // of the node, by itself
		select {
		case <-r.c.Done():
			err = r.c.Err()
		case <-ctx.Done():
		}
	case "status":
		a.Status = statusOf(r.c.Status())
	case "witness": // of what it waits for, for as long as TTL
		watch, end := context.WithTimeout(ctx, o.TTL)
		a.Worst, err = witness(watch, o.Name)
		end()
	default:
		a.Share, err = strain(ctx, o)
	}
	if err != nil {
		a.Err = err.Error()
		a.Lost = errors.Is(err, holdfast.ErrLost)
		a.NoQuorum = errors.Is(err, holdfast.ErrNoQuorum)
		a.Stale = errors.Is(err, holdfast.ErrStaleToken)
		a.Foreign = errors.Is(err, holdfast.ErrIncompatible)
	}
	return a
}

func (r *remote) turn(ctx context.Context, o order) (holdfast.Token, error) {
	l, err := r.c.Acquire(ctx, o.Name, holdfast.WithTTL(o.TTL))
	if err != nil {
		return 0, err
	}
	<-time.After(20 * time.Millisecond) // real time: the work under the lock
	return l.Token(), l.Release(ctx)
}

func (r *remote) load(o order) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.TTL)
	defer cancel()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for ctx.Err() == nil {
				if l, err := r.c.Acquire(ctx, fmt.Sprint(o.Name, i)); err == nil {
					_ = l.Release(ctx)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// proc is a process of the fleet, as the test sees it.
type proc struct {
	t       *testing.T
	cfg     processConfig
	prepare func(*exec.Cmd) // optional
	*process.Client[order, answer]
}

// procs starts n processes with data directories that join through one file.
func procs(t *testing.T, n int, change ...func(*processConfig)) []*proc {
	t.Helper()
	list := begun(t, n, change...)
	for _, p := range list {
		p.ready()
	}
	return list
}

// begun is procs without the wait until they are ready.
func begun(t *testing.T, n int, change ...func(*processConfig)) []*proc {
	t.Helper()
	dir := t.TempDir()
	list := make([]*proc, n)
	for i := range list {
		cfg := processConfig{
			Cluster: testkit.Cluster(t), Name: fmt.Sprint("p", i), DataDir: filepath.Join(dir, fmt.Sprint(i)),
			Join: []string{"file+" + filepath.Join(dir, "peers")}, Bootstrap: max(min(n, 3), n/2+1), // of six, two triples could found a group each
		}
		for _, f := range change {
			f(&cfg)
		}
		list[i] = &proc{t: t, cfg: cfg}
		list[i].start()
	}
	return list
}

func (p *proc) start() {
	p.t.Helper()
	cfg, err := json.Marshal(p.cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := process.Self()
	cmd.Env = append(cmd.Env, processVar+"="+string(cfg))
	if p.prepare != nil {
		p.prepare(cmd)
	}
	if p.Client, err = process.StartClient[order, answer](cmd); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.Kill)
}

// begin gives an order; the answer comes on the channel.
func (p *proc) begin(o order) <-chan answer {
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	return p.Begin(o)
}

// ask gives an order and waits for the answer.
func (p *proc) ask(o order) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Minute, o.Timeout+10*time.Second))
	defer cancel()
	a, err := p.Await(ctx, p.begin(o))
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.cfg.Name, o.Op, err)
	}
	return a
}

// must is ask for what has to succeed.
func (p *proc) must(o order) answer {
	p.t.Helper()
	a := p.ask(o)
	if a.Err != "" {
		p.t.Fatalf("%s: %s %s: %s", p.cfg.Name, o.Op, o.Name, a.Err)
	}
	return a
}

func (p *proc) ready() {
	p.t.Helper()
	p.must(order{Op: "ready", Timeout: 55 * time.Second}) // a dead voter is replaced after 30 s
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the process, which lives, with SIGKILL and waits for its end.
func (p *proc) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.Done()
}

// highest is the bound below which all durations of a histogram are, without end if there is none.
func highest(h holdfast.Histogram) time.Duration {
	if h.Count == 0 {
		return 0
	}
	for _, b := range h.Buckets {
		if b.Count == h.Count {
			return time.Duration(b.UpTo * float64(time.Second))
		}
	}
	return math.MaxInt64
}
