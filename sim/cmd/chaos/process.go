//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/relay"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
	"github.com/holdfast-go/holdfast/transport"
)

// processVar makes this program run as one process of the fleet; its value is the process's plan.
const processVar = "HOLDFAST_CHAOS_PROCESS"

const (
	callers     = 3 // of each process
	statusEvery = 200 * time.Millisecond
	servedLimit = 500 * time.Millisecond
	readyLimit  = 100 * time.Millisecond
	pulse       = 20 * time.Millisecond
	stallMin    = 200 * time.Millisecond // a process that was not run for so long stood still
	leaveLimit  = 15 * time.Second
	callLimit   = time.Second
)

// Orders to a process, each a line on its standard input. The end of the input is orderClose.
const (
	orderRest   = "rest"   // the callers of locks finish
	orderServe  = "serve"  // acquire a lock of your own until it works, and say so
	orderDrain  = "drain"  // acquire every lock whole, once; story.Drained answers
	orderSettle = "settle" // compare what the watcher knows with the locks; story.Settled answers
	orderLeave  = "leave"  // leave the group, and end
	orderClose  = "close"  // close, and end
	orderRevoke = "revoke" // and the id of a node: free all that it holds
)

// plan is what a process of the fleet is told.
type plan struct {
	Node, Life, Nodes int
	Seed              uint64
	Begin             int64 // of the run, on the machine's clock
	TTL               time.Duration
	Voters            int
	SnapshotEvery     uint64
	Long, Replace     time.Duration // the TTL of locks that are held for long; Config.ReplaceAfter
	Name, Data, Book  string        // a label; the data directory, if the node has a disk; the directory of the ledgers
	Advertise         string
	Join, Secrets     []string
	Routes            map[string]relay.Route // where the relay finds the others
}

// process is one process of the fleet.
type process struct {
	plan  plan
	c     *holdfast.Cluster
	books *books

	rest    context.Context // ended by orderRest
	relax   context.CancelFunc
	closing atomic.Bool
	work    sync.WaitGroup
	ops     atomic.Uint64
	fold    fold

	mu  sync.Mutex
	out io.Writer
}

// runProcess is the main function of a process of the fleet.
func runProcess() int {
	p := &process{out: os.Stdout}
	p.rest, p.relax = context.WithCancel(context.Background())
	defer p.relax()
	if err := json.Unmarshal([]byte(os.Getenv(processVar)), &p.plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos process:", err)
		return 1
	}
	return 0
}

func (p *process) now() time.Duration { return time.Duration(boot() - p.plan.Begin) }

// add records a line that happened between from and now.
func (p *process) add(from time.Duration, l story.Line) {
	l.From, l.Node, l.Life = from, p.plan.Node, p.plan.Life
	p.mu.Lock()
	defer p.mu.Unlock()
	l.To = p.now()
	_ = json.NewEncoder(p.out).Encode(l)
}

// event records what a caller saw.
func (p *process) event(from time.Duration, e history.Event) {
	p.add(from, story.Line{Kind: story.KindEvent, Event: &e})
}

func (p *process) wrong(format string, args ...any) {
	p.add(p.now(), story.Line{Kind: story.KindWrong, Text: fmt.Sprintf(format, args...)})
}

// run is the life of the process.
func (p *process) run() error {
	network := relay.Detour(transport.TCP(), p.plan.Routes, func(addr string) {
		p.add(p.now(), story.Line{Kind: story.KindNote, Text: listening + addr})
	})
	ctx := env.With(context.Background(), env.Env{Network: network, SnapshotEvery: p.plan.SnapshotEvery, SnapshotKeep: p.plan.SnapshotEvery / 8})
	c, err := holdfast.Open(ctx, holdfast.Config{
		Cluster: "chaos", Name: p.plan.Name, DataDir: p.plan.Data, Advertise: p.plan.Advertise, Join: p.plan.Join,
		Bootstrap: min(3, p.plan.Nodes), Voters: p.plan.Voters, Secrets: p.plan.Secrets, TTL: p.plan.TTL,
		ReplaceAfter: p.plan.Replace,
		Logger:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		return p.refused(err)
	}
	defer c.Close()
	p.c = c
	p.event(p.now(), history.Event{Kind: history.Opened, Value: c.ID()})
	if p.books, err = openBooks(p.plan.Book); err != nil {
		return err
	}
	defer p.books.close()

	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { p.pulse(stop) })
	watching.Go(func() { p.status(stop) })
	watching.Go(func() { p.watchEnd(stop) })
	own := func(i int) *rand.Rand {
		return rand.New(rand.NewPCG(p.plan.Seed, uint64(p.plan.Node)<<32|uint64(p.plan.Life)<<8|uint64(i)))
	}
	for i := range callers {
		p.work.Go(func() { p.caller(own(i)) })
	}
	p.work.Go(func() { p.watch(own(callers)) })
	p.work.Go(func() { p.runner(own(callers + 1)) })
	p.work.Go(func() { p.candidate(own(callers + 2)) })
	p.work.Go(func() { p.keeper(own(callers + 4)) })
	hearing, deaf := context.WithCancel(ctx)
	watching.Go(func() { p.observe(hearing, own(callers+3)) })
	watching.Go(func() { p.follow(hearing, p.prefix()) })

	leave := p.obey()
	p.closing.Store(true)
	p.add(p.now(), story.Line{Kind: story.KindClosing})
	if leave {
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		defer cancel()
		if err := c.Leave(ctx); err != nil {
			p.understand(c, "leaving", err)
		}
	}
	err = c.Close()
	close(stop)
	deaf()
	watching.Wait()
	return err
}

// listening begins the note that tells where the node listens, beside what it advertises.
const listening = "listening at "

// obey carries out orders until the process is to end; true: by leaving.
func (p *process) obey() bool {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case orderRest:
			p.relax()
			go p.rested()
		case orderServe:
			go p.serve()
		case orderDrain:
			go p.drain()
		case orderSettle:
			go p.settle()
		case orderLeave:
			return true
		case orderClose:
			return false
		default:
			if id, ok := strings.CutPrefix(lines.Text(), orderRevoke+" "); ok {
				go p.revoke(id)
			}
		}
	}
	return false
}

// pulse notices when the process stands still.
func (p *process) pulse(stop <-chan struct{}) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for last := p.now(); ; {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		now := p.now()
		if now-last > stallMin {
			p.add(last, story.Line{Kind: story.KindStall})
		}
		last = now
	}
}

// status tells again and again how the node is.
func (p *process) status(stop <-chan struct{}) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for {
		from := p.now()
		err := p.c.Verify(within(servedLimit), "status", 1) // which was never granted
		s := p.c.Status()
		p.add(from, story.Line{Kind: story.KindStatus, Status: &story.Status{
			ID: s.ID, RaftLeader: s.RaftLeader, Term: s.Term, Voters: s.Voters,
			Served: errors.Is(err, holdfast.ErrStaleToken), Ready: p.c.Ready(within(readyLimit)) == nil,
		}})
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

// watchEnd tells when the node stops serving for good without having been asked to. The process lives on, as
// an application would.
func (p *process) watchEnd(stop <-chan struct{}) {
	select {
	case <-p.c.Done():
	case <-stop:
		return
	}
	if err := p.c.Err(); !p.closing.Load() {
		text := fmt.Sprint(err)
		switch {
		case errors.Is(err, holdfast.ErrRemoved):
			text = removed
		case errors.Is(err, holdfast.ErrIncompatible):
			text = superseded
		}
		p.add(p.now(), story.Line{Kind: story.KindDone, Text: text})
	}
}

// How a process tells that the group has replaced its node, and that another process has its disk.
const (
	removed    = "removed from the group"
	superseded = "its disk runs elsewhere"
)

// serve acquires and releases a lock of the node's own until that works once.
func (p *process) serve() {
	for deadline := p.now() + 3*story.ResumeMax; p.now() < deadline; time.Sleep(50 * time.Millisecond) {
		l, err := p.c.Acquire(within(callLimit), fmt.Sprint("own", p.plan.Node))
		if err == nil && l.Release(within(callLimit)) == nil {
			p.event(p.now(), history.Event{Kind: history.Served})
			return
		}
	}
}

// rested tells when the callers have finished.
func (p *process) rested() {
	p.work.Wait()
	p.add(p.now(), story.Line{Kind: story.KindNote, Text: story.Rested})
}

// drain acquires every lock whole: nothing may be stuck.
func (p *process) drain() {
	patience := p.plan.TTL + story.LateMax + callLimit
	all := append(kinds(), kind{name: seat, limit: 1})
	for _, k := range longs(p.plan.Long) {
		p.clear(k.name)
		all = append(all, k)
	}
	for _, k := range all {
		l, err := p.c.Acquire(within(patience), k.name, k.whole()...)
		if err != nil {
			info, _ := p.c.Inspect(within(callLimit), k.name)
			p.wrong("at the end %s cannot be had: %v; %+v", k.name, err, info)
			continue
		}
		if err := l.Release(within(patience)); err != nil {
			p.wrong("at the end %s cannot be released: %v", k.name, err)
		}
	}
	p.add(p.now(), story.Line{Kind: story.KindNote, Text: story.Drained})
}

func (p *process) resting() bool {
	select {
	case <-p.rest.Done():
		return true
	case <-p.c.Done():
		return true
	default:
		return false
	}
}

// within is a context that ends after d. Its timer goes with it.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}
