package main

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// proc is a child process.
type proc struct {
	startup startup
	cmd     *exec.Cmd
	stdin   io.WriteCloser

	mu      sync.Mutex
	out     *gob.Encoder
	last    int
	waiting map[int]chan answer
	ended   chan struct{} // closed when the process is gone
}

func launch(s startup) (*proc, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p := &proc{startup: s, waiting: make(map[int]chan answer), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childVar+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = gob.NewEncoder(p.stdin)
	go p.listen(gob.NewDecoder(stdout))
	return p, nil
}

func (p *proc) listen(in *gob.Decoder) {
	defer close(p.ended)
	for {
		var a answer
		if in.Decode(&a) != nil {
			break
		}
		p.mu.Lock()
		ch := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
	_ = p.cmd.Wait()
}

// begin gives an order; what it answers waits for the answer.
func (p *proc) begin(ctx context.Context, o order) func() (answer, error) {
	if o.Timeout == 0 {
		o.Timeout = o.Span + time.Minute
	}
	p.mu.Lock()
	p.last++
	o.ID = p.last
	ch := make(chan answer, 1)
	p.waiting[o.ID] = ch
	err := p.out.Encode(o)
	p.mu.Unlock()
	return func() (answer, error) {
		if err != nil {
			return answer{}, err
		}
		select {
		case a := <-ch:
			if a.Err != "" {
				return a, fmt.Errorf("%s %s: %s", o.Op, o.What, a.Err)
			}
			return a, nil
		case <-p.ended:
			return answer{}, fmt.Errorf("%s %s: the process has ended", o.Op, o.What)
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
}

// ask gives an order and waits for the answer.
func (p *proc) ask(ctx context.Context, o order) (answer, error) { return p.begin(ctx, o)() }

// kill ends the process with SIGKILL.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop ends the process as it would end by itself.
func (p *proc) stop() {
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// votersOfFleet is how many processes of a fleet vote.
const votersOfFleet = 3

// fleet is the processes of one contestant: three voters, then perhaps a standby.
type fleet struct {
	kind  string
	base  startup
	dir   string // "": in memory
	procs []*proc
}

// newFleet starts three voters, with their data on disk or in memory.
func newFleet(ctx context.Context, s settings, kind string, onDisk bool) (_ *fleet, err error) {
	f := &fleet{kind: kind}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	dir, err := os.MkdirTemp(s.data, kind+"-")
	if err != nil {
		return nil, err
	}
	f.base = startup{Kind: kind, Voters: votersOfFleet, Election: s.election, Peers: filepath.Join(dir, "peers")}
	if onDisk {
		f.dir = dir
	}
	if kind == kindEngine || kind == kindTan {
		if f.base.Addrs, err = freePorts(votersOfFleet + 1); err != nil {
			return nil, err
		}
	}
	for range votersOfFleet {
		if err := f.add(); err != nil {
			return nil, err
		}
	}
	return f, f.ready(ctx)
}

// add starts one more process.
func (f *fleet) add() error {
	s := f.base
	s.Index = len(f.procs)
	if f.dir != "" {
		s.DataDir = filepath.Join(f.dir, fmt.Sprint(s.Index))
	}
	p, err := launch(s)
	if err == nil {
		f.procs = append(f.procs, p)
	}
	return err
}

// follow adds a standby.
func (f *fleet) follow(ctx context.Context) error {
	if f.kind == kindEngine {
		_, err := f.procs[0].ask(ctx, order{Op: "admit", Count: votersOfFleet + 1, Addr: f.base.Addrs[votersOfFleet]})
		if err != nil {
			return err
		}
	}
	if err := f.add(); err != nil {
		return err
	}
	return f.ready(ctx)
}

// term is the highest term that a process knows.
func (f *fleet) term(ctx context.Context) (highest uint64, err error) {
	for _, p := range f.procs {
		a, e := p.ask(ctx, order{Op: "role"})
		highest, err = max(highest, a.Term), errors.Join(err, e)
	}
	return highest, err
}

// cpu is the processor time that all processes have used so far.
func (f *fleet) cpu(ctx context.Context) (total time.Duration, err error) {
	for _, p := range f.procs {
		a, e := p.ask(ctx, order{Op: "usage"})
		total, err = total+a.Figures.CPU, errors.Join(err, e)
	}
	return total, err
}

func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, e := net.Listen("tcp", "127.0.0.1:0")
		if e != nil {
			return nil, e
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (f *fleet) ready(ctx context.Context) error {
	for _, p := range f.procs {
		if _, err := p.ask(ctx, order{Op: "opened"}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) stop() {
	var all sync.WaitGroup
	for _, p := range f.procs {
		all.Go(p.stop)
	}
	all.Wait()
}

// find answers a process of a role, waiting for a raft leader to be known.
func (f *fleet) find(ctx context.Context, role string) (*proc, error) {
	for {
		for _, p := range f.procs {
			a, err := p.ask(ctx, order{Op: "role"})
			if err != nil {
				return nil, err
			}
			if a.Role == role {
				return p, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("no %s: %w", role, ctx.Err())
		}
	}
}

// load lets callers on the process of a role do an operation. A round during which raft leadership moved is done again.
func (f *fleet) load(ctx context.Context, role, what string, callers int, span time.Duration) (answer, error) {
	for try := 1; ; try++ {
		leader, err := f.find(ctx, roleLeader)
		if err != nil {
			return answer{}, err
		}
		p, err := f.find(ctx, role)
		if err != nil {
			return answer{}, err
		}
		a, err := p.ask(ctx, order{Op: "load", What: what, Count: callers, Span: span})
		if err != nil {
			return answer{}, fmt.Errorf("%s on the %s, %d callers: %w", f.kind, role, callers, err)
		}
		after, err := f.find(ctx, roleLeader)
		if err != nil || after == leader || try == 3 {
			return a, err
		}
		fmt.Fprintf(os.Stderr, "bench: raft leadership of %s moved during %s with %d callers: once more\n", f.kind, what, callers)
	}
}
