//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/internal/process"
)

// fleet is the parent of the processes.
type fleet struct {
	dir     string
	ttl     time.Duration
	where   source
	url     string
	begin   time.Time
	members map[string]*process.Process

	mu      sync.Mutex
	seen    []event
	changed chan struct{} // closed and renewed with every event
}

// event is a report with its sender.
type event struct {
	report
	from string
}

func newFleet(dir string, ttl time.Duration, where source, url string) *fleet {
	return &fleet{dir: dir, ttl: ttl, where: where, url: url, begin: time.Now(),
		members: make(map[string]*process.Process), changed: make(chan struct{})}
}

func (f *fleet) printf(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(f.begin).Seconds(), fmt.Sprintf(format, args...))
}

// start runs this program again as one process of the service.
func (f *fleet) start(name string) error {
	cmd := process.Self("-service", name, "-dir", f.dir, "-ttl", f.ttl.String(), "-url", f.url,
		"-driver", f.where.driver, "-dsn", f.where.dsn, "-dialect", fmt.Sprint(uint(f.where.dialect)))
	cmd.Stdout = process.Lines(func(line []byte) {
		var r report
		if json.Unmarshal(line, &r) == nil {
			f.note(event{r, name})
		}
	})
	p, err := process.Start(cmd)
	if err == nil {
		f.members[name] = p
	}
	return err
}

func (f *fleet) note(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, e)
	close(f.changed)
	f.changed = make(chan struct{})
}

// mark is the place in the story from which to look for further events.
func (f *fleet) mark() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// wait returns the first event from mark on that fits, within limit.
func (f *fleet) wait(ctx context.Context, what string, mark int, limit time.Duration, fits func(event) bool) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		f.mu.Lock()
		for ; mark < len(f.seen); mark++ {
			if e := f.seen[mark]; fits(e) {
				f.mu.Unlock()
				return e, nil
			}
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, fmt.Errorf("waiting for %s: nothing within %v", what, limit)
		}
	}
}

func (f *fleet) signal(name string, sig syscall.Signal) error {
	return f.members[name].Signal(sig)
}

// stop ends every process, also one that is stopped, on every way out.
func (f *fleet) stop() { crew.StopAll(f.members) }
