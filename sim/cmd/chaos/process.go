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
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/hangdisk"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
	"github.com/holdfast-go/holdfast/transport"
)

// processVar makes this program run as one process of the fleet; its value is the process's plan.
const processVar = "HOLDFAST_CHAOS_PROCESS"

const (
	statusEvery = 200 * time.Millisecond
	servedLimit = 500 * time.Millisecond
	readyLimit  = 100 * time.Millisecond
	pulse       = 20 * time.Millisecond
	stallMin    = 200 * time.Millisecond // a process that was not run for so long stood still
	leaveLimit  = 15 * time.Second
)

const fleetName = "chaos"

// Orders to a process, each a line on its standard input. The end of the input is orderClose.
const (
	orderRest   = "rest"   // the callers of locks finish
	orderServe  = "serve"  // acquire a lock of your own until it works, and say so
	orderDrain  = "drain"  // acquire every lock whole, once; story.Drained answers
	orderSettle = "settle" // compare what the watcher knows with the locks; story.Settled answers
	orderLeave  = "leave"  // leave the group, and end
	orderClose  = "close"  // close, and end
	orderRevoke = "revoke" // and the id of a node: free all that it holds
	orderHang   = "hang"   // from now on the disk writes nothing
	orderGoOn   = "go on"  // the disk writes again
	orderWrite  = "write"  // to the guarded ledger, once; story.LateWrite answers
)

type plan struct {
	Node, Life           int
	Bootstrap            int
	Client, Crowded      bool // ClientOnly; beside clients
	Recovers             bool // recovers its directory, as an operator who is too early does
	PutBack              bool // its directory was put back from a copy
	Seed                 uint64
	Begin                int64 // of the run, on the machine's clock
	TTL                  time.Duration
	Voters, Replicas     int
	SnapshotEvery        uint64
	Long, Replace        time.Duration // the TTL of locks that are held for long; Config.ReplaceAfter
	Name, Data, Resource string        // a label; the data directory, if the node has a disk; the directory of the ledgers
	Advertise            string
	Join, Secrets        []string
	Routes               map[string]relay.Route // where the relay finds the others
}

type process struct {
	plan     plan
	c        *holdfast.Cluster
	disk     *hangdisk.Disk // nil: the node has none
	resource *resource

	users *workload.Node
	awake chan struct{} // closed

	closing atomic.Bool
	ops     atomic.Uint64

	mu  sync.Mutex
	out io.Writer
}

func runProcess() int {
	p := &process{out: os.Stdout, awake: make(chan struct{})}
	close(p.awake)
	if err := json.Unmarshal([]byte(os.Getenv(processVar)), &p.plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	life := p.run
	switch {
	case p.plan.Recovers:
		life = p.recovered
	case p.plan.PutBack:
		life = p.putBack
	}
	if err := life(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos process:", err)
		return 1
	}
	return 0
}

// add records a line that happened between from and now. It is in the file before the caller goes
// on: a process that is killed takes everything else along.
func (p *process) add(from time.Duration, l story.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(from, l)
}

func (p *process) write(from time.Duration, l story.Line) {
	l.From, l.To, l.Node, l.Life = from, p.Now(), p.plan.Node, p.plan.Life
	_ = json.NewEncoder(p.out).Encode(l)
}

// open opens the node of the plan.
func (p *process) open() (*holdfast.Cluster, error) {
	network := relay.Detour(transport.TCP(), p.plan.Routes, func(addr string) {
		p.note(listening + addr)
	})
	env := simenv.Env{Network: network, SnapshotEvery: p.plan.SnapshotEvery, SnapshotKeep: p.plan.SnapshotEvery / 8}
	if dir, err := datadir.Open(p.plan.Data, fleetName); err == nil { // else the node says why
		on := hangdisk.Wrap(dir)
		env.Dir, p.disk = on, on.Disk
	}
	return holdfast.Open(simenv.With(context.Background(), env), holdfast.Config{
		Cluster: fleetName, ClientOnly: p.plan.Client, Name: p.plan.Name, DataDir: p.plan.Data, Advertise: p.plan.Advertise, Join: p.plan.Join,
		Bootstrap: p.plan.Bootstrap, Voters: p.plan.Voters, Replicas: p.plan.Replicas, Secrets: p.plan.Secrets, TTL: p.plan.TTL,
		ReplaceAfter: p.plan.Replace, MaxTTL: max(p.plan.TTL, p.plan.Long),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
}

func (p *process) run() error {
	c, err := p.open()
	if err != nil {
		return p.refused(err)
	}
	defer c.Close()
	p.c = c
	p.Add(history.Event{Kind: history.Opened, Value: c.ID()})
	if p.resource, err = openResource(p.plan.Resource); err != nil {
		return err
	}
	defer p.resource.close()

	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { p.pulse(stop) })
	watching.Go(func() { p.status(stop) })
	watching.Go(func() { p.watchEnd(stop) })
	p.employ()

	leave := p.obey()
	p.closing.Store(true)
	p.add(p.Now(), story.Line{Kind: story.KindClosing})
	if leave {
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		defer cancel()
		if err := c.Leave(ctx); err != nil {
			p.users.Understand(c, "leaving", err)
		}
	}
	err = c.Close()
	close(stop)
	p.users.Close()
	watching.Wait()
	return err
}

// listening begins the note that tells where the node listens, beside what it advertises.
const listening = "listening at "

func (p *process) obey() bool {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case orderRest:
			go p.done(story.Rested, p.users.Rest)
		case orderServe:
			go p.users.Serve(workload.Within(3 * story.ResumeMax))
		case orderDrain:
			go p.done(story.Drained, p.users.Drain)
		case orderSettle:
			go func() {
				if p.users.Settle() {
					p.note(story.Settled)
				}
			}()
		case orderHang, orderGoOn:
			p.hang(lines.Text() == orderHang)
		case orderWrite:
			go p.writeLate()
		case orderLeave:
			return true
		case orderClose:
			return false
		default:
			if id, ok := strings.CutPrefix(lines.Text(), orderRevoke+" "); ok {
				go p.users.Revoke(id)
			}
		}
	}
	return false
}

// hang has the disk write nothing until it shall go on, as storage that stalls does.
func (p *process) hang(on bool) {
	switch {
	case p.disk == nil:
	case on:
		p.disk.Hang()
	default:
		p.disk.Resume()
	}
}

func (p *process) pulse(stop <-chan struct{}) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for last := p.Now(); ; {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		now := p.Now()
		if now-last > stallMin {
			p.add(last, story.Line{Kind: story.KindStall})
		}
		last = now
	}
}

func (p *process) status(stop <-chan struct{}) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for {
		from := p.Now()
		err := p.c.Verify(workload.Within(servedLimit), "status", 1) // which was never granted
		s, voters := p.c.Status(), []string(nil)
		for _, r := range s.Voters {
			voters = append(voters, r.ID)
		}
		p.add(from, story.Line{Kind: story.KindStatus, Status: &story.Status{
			ID: s.ID, RaftLeader: s.RaftLeader, Term: s.Term, Voters: voters,
			Served: errors.Is(err, holdfast.ErrStaleToken), Ready: p.c.Ready(workload.Within(readyLimit)) == nil, Far: s.Role == holdfast.RoleClient,
		}})
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

// watchEnd tells when the node stops serving for good without having been asked to. The process
// lives on, as an application would.
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
		p.add(p.Now(), story.Line{Kind: story.KindDone, Text: text})
	}
}

// How a process tells that the group has replaced its node, and that another process has its disk.
const (
	removed    = "removed from the group"
	superseded = "its disk runs elsewhere"
)

func (p *process) done(what string, do func()) {
	do()
	p.note(what)
}

// refused tells that the node could not be opened because its disk runs elsewhere, and waits for
// the order to end.
func (p *process) refused(err error) error {
	if !errors.Is(err, holdfast.ErrIncompatible) {
		return err
	}
	p.add(p.Now(), story.Line{Kind: story.KindDone, Text: superseded})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != orderClose && lines.Text() != orderLeave {
	}
	return nil
}
