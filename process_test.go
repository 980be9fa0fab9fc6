//go:build unix

package holdfast_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// processVar makes the test binary run as one process of a fleet; its value is the process's Config.
const processVar = "HOLDFAST_TEST_PROCESS"

// processConfig is what a test may choose of a process's Config.
type processConfig struct {
	Name, DataDir string
	Join, Secrets []string
	Bootstrap     int
	Bind          string        // "": a port of the system's choice
	ReplaceAfter  time.Duration // 0: as by default
}

// order is what a test asks of a process, on a line of its standard input.
type order struct {
	ID      int
	Op      string
	Name    string
	Token   holdfast.Token
	Value   []byte
	TTL     time.Duration
	Timeout time.Duration
}

// answer is what it says, on a line of its standard output.
type answer struct {
	ID       int
	Err      string
	Lost     bool // the error is ErrLost, …
	NoQuorum bool
	Stale    bool
	Foreign  bool // ErrIncompatible
	Node     string
	Addr     string
	Token    holdfast.Token
	Valid    bool
	Done     bool
	Info     holdfast.LockInfo
	Status   struct {
		RaftLeader       string
		Voters, Standbys []string
		LateMax          time.Duration
	}
}

// process is the main function of a process of the fleet. It ends with its standard input.
func process() int {
	var cfg processConfig
	if err := json.Unmarshal([]byte(os.Getenv(processVar)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	c, err := holdfast.Open(context.Background(), holdfast.Config{
		Name: cfg.Name, DataDir: cfg.DataDir, Join: cfg.Join, Bootstrap: cfg.Bootstrap, Secrets: cfg.Secrets,
		Bind: cfg.Bind, ReplaceAfter: cfg.ReplaceAfter,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	// The others find this process's address in the file that all join through.
	peers, err := os.OpenFile(cfg.Join[0][len("file+"):], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(peers, c.Addr())
	peers.Close()

	r := &remote{c: c, leases: make(map[string]*holdfast.Lease)}
	var out sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		go func() {
			a := r.do(o)
			out.Lock()
			defer out.Unlock()
			_ = json.NewEncoder(os.Stdout).Encode(a)
		}()
	}
	return 0
}

// remote carries out orders.
type remote struct {
	c      *holdfast.Cluster
	mu     sync.Mutex
	leases map[string]*holdfast.Lease
}

func (r *remote) lease(name string) *holdfast.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[name]
}

func (r *remote) do(o order) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	a.ID, a.Node, a.Addr = o.ID, r.c.ID(), r.c.Addr()
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
		a.Valid = l.Valid()
		err = l.Err()
		select {
		case <-l.Done():
			a.Done = true
		default:
		}
	case "turn": // with a lock: taken, used for a moment, and given back
		var l *holdfast.Lease
		if l, err = r.c.Acquire(ctx, o.Name, holdfast.WithTTL(o.TTL)); err == nil {
			a.Token = l.Token()
			<-time.After(20 * time.Millisecond) // real time: the work under the lock
			err = l.Release(ctx)
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
		s := r.c.Status()
		a.Status.RaftLeader, a.Status.Voters, a.Status.Standbys = s.RaftLeader, s.Voters, s.Standbys
		a.Status.LateMax = s.Expiries.Max
	default:
		err = strain(ctx, o)
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

// proc is a process of the fleet, as the test sees it.
type proc struct {
	t       *testing.T
	cfg     processConfig
	prepare func(*exec.Cmd) // optional
	cmd     *exec.Cmd
	stdin   io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	ended   chan struct{}
}

// procs starts n processes with data directories that join through one file.
func procs(t *testing.T, n int, change ...func(*processConfig)) []*proc {
	t.Helper()
	dir := t.TempDir()
	list := make([]*proc, n)
	for i := range list {
		cfg := processConfig{
			Name: fmt.Sprint("p", i), DataDir: filepath.Join(dir, fmt.Sprint(i)),
			Join: []string{"file+" + filepath.Join(dir, "peers")}, Bootstrap: min(n, 3),
		}
		for _, f := range change {
			f(&cfg)
		}
		list[i] = &proc{t: t, cfg: cfg}
		list[i].start()
	}
	for _, p := range list {
		p.ready()
	}
	return list
}

func (p *proc) start() {
	p.t.Helper()
	cfg, err := json.Marshal(p.cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), processVar+"="+string(cfg))
	p.cmd.Stderr = os.Stderr
	if p.prepare != nil {
		p.prepare(p.cmd)
	}
	p.stdin, err = p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.waiting, p.ended = make(map[int]chan answer), ended
	p.mu.Unlock()
	cmd := p.cmd
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) == nil {
				p.mu.Lock()
				ch := p.waiting[a.ID]
				delete(p.waiting, a.ID)
				p.mu.Unlock()
				if ch != nil {
					ch <- a
				}
			}
		}
		_ = cmd.Wait()
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
	})
}

// begin gives an order; the answer comes on the channel.
func (p *proc) begin(o order) <-chan answer {
	p.mu.Lock()
	p.last++
	o.ID = p.last
	ch := make(chan answer, 1)
	p.waiting[o.ID] = ch
	p.mu.Unlock()
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	line, err := json.Marshal(o)
	if err != nil {
		p.t.Error(err)
	}
	_, _ = p.stdin.Write(append(line, '\n'))
	return ch
}

// ask gives an order and waits for the answer.
func (p *proc) ask(o order) answer {
	p.t.Helper()
	select {
	case a := <-p.begin(o):
		return a
	case <-p.ended:
		p.t.Fatalf("%s ended during %s", p.cfg.Name, o.Op)
	case <-time.After(time.Minute):
		p.t.Fatalf("%s does not answer %s", p.cfg.Name, o.Op)
	}
	return answer{}
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
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (p *proc) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
}
