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
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/process"
)

// fleet is the parent of the three processes and the teller of their story.
type fleet struct {
	dir     string
	ttl     time.Duration
	begin   time.Time
	members map[string]*process.Process
	ids     map[string]string // node ids by name

	mu      sync.Mutex
	seen    []event
	changed chan struct{}
	facts   []string // for the summary
}

// event is a report with its sender and time.
type event struct {
	report
	from string
	at   time.Time
}

func newFleet(dir string, ttl time.Duration) *fleet {
	return &fleet{
		dir: dir, ttl: ttl, begin: time.Now(),
		members: make(map[string]*process.Process), ids: make(map[string]string), changed: make(chan struct{}),
	}
}

func (f *fleet) printf(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(f.begin).Seconds(), fmt.Sprintf(format, args...))
}

// start runs this program again as one process of the service.
func (f *fleet) start(name string) error {
	cmd := process.Self("-service", name, "-dir", f.dir, "-ttl", f.ttl.String())
	cmd.Stdout = process.Lines(func(line []byte) {
		var r report
		if json.Unmarshal(line, &r) == nil {
			f.note(event{r, name, time.Now()})
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

// wait returns the first event after mark that fits, within limit.
func (f *fleet) wait(ctx context.Context, what string, mark int, limit time.Duration, fits func(event) bool) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		f.mu.Lock()
		for ; mark < len(f.seen); mark++ {
			if fits(f.seen[mark]) {
				e := f.seen[mark]
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

// leading waits until somebody else than not leads with a token above floor and has ticked.
func (f *fleet) leading(ctx context.Context, mark int, limit time.Duration, not string, floor fence.Token) (event, error) {
	return f.wait(ctx, "a tick of a new holder", mark, limit, func(e event) bool {
		return e.Event == "tick" && e.from != not && e.Token > floor
	})
}

func (f *fleet) signal(name string, sig syscall.Signal) error {
	return f.members[name].Signal(sig)
}

// stop ends every process, also one that is stopped, on every way out.
func (f *fleet) stop() { crew.StopAll(f.members) }
