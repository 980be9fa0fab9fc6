//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// member is one process of the service, as its parent sees it.
type member struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
}

// fleet is the parent of the processes.
type fleet struct {
	dir     string
	ttl     time.Duration
	where   source
	url     string
	begin   time.Time
	members map[string]*member

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
		members: make(map[string]*member), changed: make(chan struct{})}
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
	m := &member{exited: make(chan struct{})}
	m.cmd = exec.Command(self, "-service", name, "-dir", f.dir, "-ttl", f.ttl.String(), "-url", f.url,
		"-driver", f.where.driver, "-dsn", f.where.dsn, "-dialect", fmt.Sprint(uint(f.where.dialect)))
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
				f.note(event{r, name})
			}
		}
		_ = m.cmd.Wait() // how it ended is seen by what is missing
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
	return f.members[name].cmd.Process.Signal(sig)
}

// stop ends every process, also one that is stopped; again is harmless.
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
