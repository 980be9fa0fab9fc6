//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/relay"
)

const (
	closeLimit = 15 * time.Second // for a process to end that was asked to
	readyWait  = 60 * time.Second
)

type fleet struct {
	run     story.Run
	begin   int64
	dir     string // of the whole run
	relay   *relay.Relay
	slots   []*slot
	network chan struct{} // taken by whoever has the network in hand
	file    *os.File      // the record

	mu      sync.Mutex
	lines   []story.Line
	changed chan struct{} // closed and replaced when lines grow
	faults  int
	ending  bool // processes may end
}

func newFleet(run story.Run, dir string) (*fleet, error) {
	f := &fleet{run: run, begin: boot(), dir: dir, network: make(chan struct{}, 1), changed: make(chan struct{})}
	for _, sub := range []string{"data", resourceDir, "log"} {
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
		client := run.Client(i)
		f.slots = append(f.slots, &slot{
			f: f, i: i, data: data, busy: make(chan struct{}, 1),
			client: client, vacant: !client && i >= run.Nodes-run.Clients-run.Spares,
		})
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

func (f *fleet) note(l story.Line, text []byte) {
	f.lines = append(f.lines, l)
	_, _ = f.file.Write(text)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fleet) wrong(node int, format string, args ...any) {
	f.add(story.Line{Kind: story.KindWrong, Node: node, Text: fmt.Sprintf(format, args...)})
}

// until waits until ok, which is asked with the lock whenever there is news; false: ctx has ended
// before.
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

// leader returns the raft leader, as most of the processes see it; -1 if they do not agree.
func (f *fleet) leader() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	up := 0
	for _, s := range f.slots {
		if s.up {
			up++
		}
	}
	for _, s := range f.slots {
		votes := 0
		for _, other := range f.slots {
			if other.up && s.status.ID != "" && other.status.RaftLeader == s.status.ID {
				votes++
			}
		}
		if s.up && 2*votes > up {
			return s.i
		}
	}
	return -1
}

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

func (f *fleet) over() {
	f.add(story.Line{Kind: story.KindEvent, Node: -1, Event: &history.Event{Kind: history.Over}})
}
