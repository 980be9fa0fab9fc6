//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	child "github.com/holdfast-go/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
)

type slot struct {
	f    *fleet
	i    int
	data string
	busy chan struct{} // taken by whoever changes the life of the process

	client bool // its node is ClientOnly, and has no disk

	// Under fleet.mu:
	life     int
	up       bool // a process runs, or is stopped
	expected bool // to end
	ill      bool // to fail: its disk is full
	forked   bool // its disk is, or was, open on another machine, too: one of the two ends
	failed   bool // the node of this process serves no more
	vacant   bool // a machine on which nothing runs, until an operator starts something there
	putBack  bool // its disk was put back from a copy: see putBack
	proof    bool // what starts next does so on the disk of the process before
	status   story.Status
	asked    time.Duration // when the status was asked for
	process  *child.Process
	ended    chan struct{} // closed when the process's end is in the record
}

// plan is what the next process of the slot is told. The caller has the lock.
func (s *slot) plan() plan {
	f := s.f
	p := plan{
		Node: s.i, Life: s.life, Bootstrap: max(3, (f.run.Nodes-f.run.Clients-f.run.Spares)/2+1), Seed: f.run.Seed, Begin: f.begin, TTL: f.run.TTL, Voters: f.run.Voters, Replicas: f.run.Replicas, SnapshotEvery: f.run.SnapshotEvery,
		Long: f.run.Long, Replace: f.run.ReplaceAfter,
		PutBack: s.putBack, Name: fmt.Sprint("node", s.i), Data: s.disk(), Resource: filepath.Join(f.dir, resourceDir),
		Advertise: relay.Advertised(s.i), Secrets: []string{"chaos is a run, not a fleet: this secret need not be one"},
		Routes: make(map[string]relay.Route),
	}
	p.Client, p.Crowded = s.client, f.run.Clients > 0 || f.run.Bounded()
	if f.run.Diskless || s.client {
		p.Data = ""
	}
	for j, other := range f.slots {
		if j != s.i && !other.client {
			p.Join = append(p.Join, relay.Advertised(j))
			p.Routes[relay.Advertised(j)] = f.relay.Route(s.i, j)
		}
	}
	return p
}

// start starts a process in the slot. The caller has taken busy.
func (s *slot) start() error {
	f := s.f
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.life++
	from := f.now()
	told, err := json.Marshal(s.plan())
	if err != nil {
		return err
	}
	cmd := child.Self()
	cmd.Env = append(cmd.Env, processVar+"="+string(told))
	cmd.Stdout, cmd.Stderr = child.Lines(s.heard), log
	if s.process, err = child.Start(cmd); err != nil {
		return err
	}
	s.up, s.expected, s.failed, s.vacant, s.ended = true, false, false, false, make(chan struct{})
	s.status, s.asked = story.Status{}, 0
	l := story.Line{Kind: story.KindStart, Node: s.i, Life: s.life, From: from, To: f.now(), Proof: s.proof}
	s.proof = !f.run.Diskless && !s.client
	if text, err := json.Marshal(l); err == nil {
		f.note(l, append(text, '\n'))
	}
	go s.follow(s.process, s.life, s.ended)
	return nil
}

func (s *slot) log() string { return filepath.Join(s.f.dir, "log", fmt.Sprintf("node%d.log", s.i)) }

func (s *slot) heard(text []byte) {
	f := s.f
	var l story.Line
	if err := json.Unmarshal(text, &l); err != nil {
		f.wrong(s.i, "the process says %q: %v", text, err)
		return
	}
	f.mu.Lock()
	f.note(l, append(text, '\n'))
	if l.Status != nil {
		s.status, s.asked = *l.Status, l.From
	}
	s.failed = s.failed || l.Kind == story.KindDone
	f.mu.Unlock()
	if at, ok := strings.CutPrefix(l.Text, listening); ok && l.Kind == story.KindNote {
		f.relay.Serve(s.i, at)
	}
}

func (s *slot) follow(p *child.Process, life int, ended chan struct{}) {
	f := s.f
	<-p.Done()
	err := p.Err()
	f.relay.Serve(s.i, "")
	f.mu.Lock()
	s.up = false
	expected := s.expected || f.ending
	f.mu.Unlock()
	how := "code 0"
	if err != nil {
		how = err.Error()
	}
	f.add(story.Line{Kind: story.KindExit, Node: s.i, Life: life, Text: how})
	if !expected {
		f.wrong(s.i, "the process ended by itself: %s; %s", how, s.tail())
	}
	close(ended)
}

func (s *slot) tail() string {
	const size = 2000
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-size):])
}

func (s *slot) signal(sig syscall.Signal) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.up {
		_ = s.process.Signal(sig)
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (s *slot) kill() {
	s.f.mu.Lock()
	s.expected = true
	ended := s.ended
	s.f.mu.Unlock()
	s.signal(syscall.SIGKILL)
	if ended != nil {
		<-ended
	}
}

// stop asks the process to end and waits for that; one that does not is killed, and told of.
func (s *slot) stop(order string) {
	s.f.mu.Lock()
	s.expected = true
	ended := s.ended
	s.f.mu.Unlock()
	if ended == nil {
		return
	}
	s.order(order)
	select {
	case <-ended:
	case <-time.After(closeLimit + leaveLimit):
		s.f.wrong(s.i, "the process has not ended %v after the order to %s", closeLimit+leaveLimit, order)
		s.kill()
	}
}

func (s *slot) order(text string) {
	s.f.mu.Lock()
	p, up := s.process, s.up
	s.f.mu.Unlock()
	if up {
		_ = p.Send(text)
	}
}

// ready reports whether the process has answered after that time that it is ready. The caller has
// the lock.
func (s *slot) ready(after time.Duration) bool { return s.up && s.status.Ready && s.asked >= after }

// served reports whether the group has answered the process after that time. The caller has the
// lock.
func (s *slot) served(after time.Duration) bool { return s.up && s.status.Served && s.asked >= after }

// reopen starts nodes again, until ctx ends, that serve no more: the group has removed them while
// they were away, or their disk runs elsewhere. A node that failed in any other way, while nothing
// was done to its disk, is told of.
func (f *fleet) reopen(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for mark := 0; ; {
		l, ok := f.seen(ctx, mark, func(l story.Line) bool { mark++; return l.Kind == story.KindDone })
		if !ok {
			return
		}
		s := f.slots[l.Node]
		f.mu.Lock()
		expected := l.Text == removed || s.ill || l.Text == superseded && s.forked
		f.mu.Unlock()
		if !expected {
			f.wrong(s.i, "the node has failed: %s", l.Text)
		}
		all.Go(func() { s.reopen(ctx, l) })
	}
}

// reopen starts the node of a slot again, unless somebody else has done so. What has its disk
// elsewhere goes on there, and begins here as a new node.
func (s *slot) reopen(ctx context.Context, l story.Line) {
	select {
	case s.busy <- struct{}{}:
		defer s.unclaim()
	case <-ctx.Done():
		return
	}
	s.f.mu.Lock()
	same := s.up && s.life == l.Life
	s.f.mu.Unlock()
	if !same {
		return
	}
	s.f.fault("reopen", l.Text, []int{s.i}, func() {
		s.stop(orderClose)
		if l.Text == superseded {
			s.wipe()
		}
		s.f.begins(s)
	})
}
