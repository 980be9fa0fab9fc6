package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/process"
)

type proc struct {
	startup startup
	*process.Client[order, answer]
}

func launch(s startup) (*proc, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := process.Self()
	cmd.Env = append(cmd.Env, childVar+"="+string(text))
	c, err := process.StartClient[order, answer](cmd)
	return &proc{s, c}, err
}

func (p *proc) begin(ctx context.Context, o order) func() (answer, error) {
	if o.Timeout == 0 {
		o.Timeout = o.Span + time.Minute
	}
	answered := p.Begin(o)
	return func() (answer, error) {
		a, err := p.Await(ctx, answered)
		if err == nil && a.Err != "" {
			err = errors.New(a.Err)
		}
		if err != nil {
			return a, fmt.Errorf("%s %s: %w", o.Op, o.What, err)
		}
		return a, nil
	}
}

func (p *proc) ask(ctx context.Context, o order) (answer, error) { return p.begin(ctx, o)() }

func (p *proc) stop() { _ = p.Stop(10 * time.Second) }

// votersOfFleet is how many processes of a fleet vote.
const votersOfFleet = 3

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
	f.base = startup{Kind: kind, Voters: votersOfFleet, Timing: s.timing, Peers: filepath.Join(dir, "peers")}
	if onDisk {
		f.dir = dir
	}
	if kind == kindEngine {
		if f.base.Addrs, err = process.FreeAddrs(votersOfFleet + 1); err != nil {
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

func (f *fleet) term(ctx context.Context) (highest uint64, err error) {
	for _, p := range f.procs {
		a, e := p.ask(ctx, order{Op: "role"})
		highest, err = max(highest, a.Term), errors.Join(err, e)
	}
	return highest, err
}

func (f *fleet) cpu(ctx context.Context) (total time.Duration, err error) {
	for _, p := range f.procs {
		a, e := p.ask(ctx, order{Op: "usage"})
		total, err = total+a.Figures.CPU, errors.Join(err, e)
	}
	return total, err
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

// kill ends a process without a word.
func (f *fleet) kill(p *proc) {
	p.Kill()
	f.procs = slices.DeleteFunc(f.procs, func(other *proc) bool { return other == p })
}

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

// load lets callers on the process of a role do an operation. A round during which raft leadership
// moved is done again.
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
