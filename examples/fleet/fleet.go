//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// member is one process of the fleet, as its parent sees it.
type member struct {
	name   string
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	exited chan struct{} // closed after err is set
	err    error
}

// fleet is the parent of the three processes and the teller of their story.
type fleet struct {
	dir     string
	ttl     time.Duration
	begin   time.Time
	members map[string]*member
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
		members: make(map[string]*member), ids: make(map[string]string), changed: make(chan struct{}),
	}
}

func (f *fleet) printf(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(f.begin).Seconds(), fmt.Sprintf(format, args...))
}

// start runs this program again as one process of the service.
func (f *fleet) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m := &member{name: name, exited: make(chan struct{})}
	m.cmd = exec.Command(self, "-service", name, "-dir", f.dir, "-ttl", f.ttl.String())
	m.cmd.Stderr = os.Stderr
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	f.members[name] = m
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				f.note(event{r, name, time.Now()})
			}
		}
		m.err = m.cmd.Wait()
		close(m.exited)
	}()
	return nil
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
	return f.members[name].cmd.Process.Signal(sig)
}

// stop ends every process on every way out: politely first, which a stopped process must be woken for.
func (f *fleet) stop() {
	for _, m := range f.members {
		_ = m.cmd.Process.Signal(syscall.SIGCONT)
		_ = m.stdin.Close()
	}
	deadline := time.After(10 * time.Second)
	for _, m := range f.members {
		select {
		case <-m.exited:
		case <-deadline:
			_ = m.cmd.Process.Kill()
			<-m.exited
		}
	}
}
