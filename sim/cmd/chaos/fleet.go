//go:build unix

package main

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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/relay"
	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

const (
	closeLimit = 15 * time.Second // for a process to end that was asked to
	readyWait  = 60 * time.Second
)

// fleet is the parent of the processes: it starts, stops and kills them, and keeps the record.
type fleet struct {
	run   story.Run
	begin int64
	dir   string // of the whole run
	relay *relay.Relay
	slots []*slot
	file  *os.File // the record

	mu      sync.Mutex
	lines   []story.Line
	changed chan struct{} // closed and replaced when lines grow
	faults  int
	ending  bool // processes may end
}

// slot is a place for a process: its number, its name, its directory.
type slot struct {
	f    *fleet
	i    int
	data string
	busy chan struct{} // taken by whoever changes the life of the process

	// Under fleet.mu:
	life     int
	up       bool // a process runs, or is stopped
	expected bool // to end
	ill      bool // to fail: its disk is full
	status   story.Status
	asked    time.Duration // when the status was asked for
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	ended    chan struct{}
}

func newFleet(run story.Run, dir string) (*fleet, error) {
	f := &fleet{run: run, begin: boot(), dir: dir, changed: make(chan struct{})}
	for _, sub := range []string{"data", "book", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if f.file, err = os.Create(filepath.Join(dir, recordFile)); err != nil {
		return nil, err
	}
	if f.relay, err = relay.New(run.Nodes, run.Seed); err != nil {
		return nil, errors.Join(err, f.file.Close())
	}
	for i := range run.Nodes {
		data := filepath.Join(dir, "data", fmt.Sprint(i))
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, errors.Join(err, f.relay.Close(), f.file.Close())
		}
		f.slots = append(f.slots, &slot{f: f, i: i, data: data, busy: make(chan struct{}, 1)})
	}
	return f, nil
}

func (f *fleet) now() time.Duration { return time.Duration(boot() - f.begin) }

// add records a line of the parent's own, as of now unless it says otherwise.
func (f *fleet) add(l story.Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.To == 0 {
		l.To = f.now()
	}
	if l.From == 0 {
		l.From = l.To
	}
	text, err := json.Marshal(l)
	if err == nil {
		f.note(l, append(text, '\n'))
	}
}

// note keeps a line. The caller has the lock.
func (f *fleet) note(l story.Line, text []byte) {
	f.lines = append(f.lines, l)
	_, _ = f.file.Write(text)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fleet) wrong(node int, format string, args ...any) {
	f.add(story.Line{Kind: story.KindWrong, Node: node, Text: fmt.Sprintf(format, args...)})
}

// until waits until ok, which is asked with the lock whenever there is news; false: ctx has ended before.
func (f *fleet) until(ctx context.Context, ok func() bool) bool {
	for {
		f.mu.Lock()
		if ok() {
			f.mu.Unlock()
			return true
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// mark is the place in the record from which to look for news. The caller has no lock.
func (f *fleet) mark() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lines)
}

// seen waits for a line after mark that fits.
func (f *fleet) seen(ctx context.Context, mark int, fits func(story.Line) bool) (story.Line, bool) {
	var found story.Line
	ok := f.until(ctx, func() bool {
		for ; mark < len(f.lines); mark++ {
			if fits(f.lines[mark]) {
				found = f.lines[mark]
				return true
			}
		}
		return false
	})
	return found, ok
}

func advertised(i int) string { return fmt.Sprintf("127.77.0.%d:7643", i+1) } // nothing is bound there

// plan is what the next process of the slot is told. The caller has the lock.
func (s *slot) plan() plan {
	f := s.f
	p := plan{
		Node: s.i, Life: s.life, Nodes: f.run.Nodes, Seed: f.run.Seed, Begin: f.begin, TTL: f.run.TTL, Voters: f.run.Voters, SnapshotEvery: f.run.SnapshotEvery,
		Name: fmt.Sprint("node", s.i), Data: filepath.Join(s.data, "node"), Book: filepath.Join(f.dir, "book"),
		Advertise: advertised(s.i), Secrets: []string{"chaos is a run, not a fleet: this secret need not be one"},
		Routes: make(map[string]relay.Route),
	}
	for j := range f.slots {
		if j != s.i {
			p.Join = append(p.Join, advertised(j))
			p.Routes[advertised(j)] = f.relay.Route(s.i, j)
		}
	}
	return p
}

// start starts a process in the slot. The caller has taken busy.
func (s *slot) start() error {
	f := s.f
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.life++
	told, err := json.Marshal(s.plan())
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), processVar+"="+string(told))
	cmd.Stderr = log
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.up, s.expected, s.ended = cmd, true, false, make(chan struct{})
	s.status, s.asked = story.Status{}, 0
	now := f.now()
	l := story.Line{Kind: story.KindStart, Node: s.i, Life: s.life, From: now, To: now}
	if text, err := json.Marshal(l); err == nil {
		f.note(l, append(text, '\n'))
	}
	go s.follow(cmd, out, s.life, s.ended)
	return nil
}

func (s *slot) log() string { return filepath.Join(s.f.dir, "log", fmt.Sprintf("node%d.log", s.i)) }

// follow records what a process says until it ends, and how it ended.
func (s *slot) follow(cmd *exec.Cmd, out io.Reader, life int, ended chan struct{}) {
	f := s.f
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var l story.Line
		if err := json.Unmarshal(text, &l); err != nil {
			f.wrong(s.i, "the process says %q: %v", text, err)
			continue
		}
		f.mu.Lock()
		f.note(l, text)
		if l.Status != nil {
			s.status, s.asked = *l.Status, l.From
		}
		f.mu.Unlock()
		if at, ok := strings.CutPrefix(l.Text, listening); ok && l.Kind == story.KindNote {
			f.relay.Serve(s.i, at)
		}
	}
	err := cmd.Wait()
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

// tail is the end of the process's log.
func (s *slot) tail() string {
	const size = 2000
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-size):])
}

// signal sends a signal to the process of the slot, if one runs.
func (s *slot) signal(sig syscall.Signal) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.up {
		_ = s.cmd.Process.Signal(sig)
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

// order gives an order to the process, if one runs.
func (s *slot) order(text string) {
	s.f.mu.Lock()
	in, up := s.stdin, s.up
	s.f.mu.Unlock()
	if up {
		_, _ = io.WriteString(in, text+"\n")
	}
}

// ready reports whether the process has answered after that time that it is ready. The caller has the lock.
func (s *slot) ready(after time.Duration) bool { return s.up && s.status.Ready && s.asked >= after }

// served reports whether the group has answered the process after that time. The caller has the lock.
func (s *slot) served(after time.Duration) bool { return s.up && s.status.Served && s.asked >= after }

// leader answers the raft leader, as most of the processes see it; -1 if they do not agree.
func (f *fleet) leader() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		votes := 0
		for _, other := range f.slots {
			if other.up && s.status.ID != "" && other.status.RaftLeader == s.status.ID {
				votes++
			}
		}
		if 2*votes > len(f.slots) {
			return s.i
		}
	}
	return -1
}

// end ends all processes and closes what the fleet has open.
func (f *fleet) end() error {
	f.mu.Lock()
	f.ending = true
	f.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range f.slots {
		all.Go(func() {
			s.signal(syscall.SIGCONT)
			s.stop(orderClose)
		})
	}
	all.Wait()
	return errors.Join(f.relay.Close(), f.file.Close())
}

// over records an event of the whole fleet.
func (f *fleet) over() {
	f.add(story.Line{Kind: story.KindEvent, Node: -1, Event: &history.Event{Kind: history.Over}})
}
