// Package crew runs an example as several processes of one service: a parent that starts this
// program again for each of them, kills and restarts them, and hears on their standard output what
// they report.
package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/process"
)

// Report is a line on the standard output of a process: what it tells the parent.
type Report struct {
	Event    string      `json:"event"`
	N        int         `json:"n,omitempty"`
	Token    fence.Token `json:"token,omitempty"`
	Document string      `json:"document,omitempty"`
	Text     string      `json:"text,omitempty"`

	From string    `json:"-"` // the process that said it
	At   time.Time `json:"-"`
}

// Crew is the processes of the service, as their parent sees them.
type Crew struct {
	Dir     string // below it the processes keep their data
	flags   []string
	begin   time.Time
	members map[string]*process.Process
	next    int // of seen: what Next returns

	mu      sync.Mutex
	seen    []Report
	changed chan struct{} // closed and renewed with every report
}

// New is a crew whose processes keep their data below dir and are started with some more flags.
func New(dir string, flags ...string) *Crew {
	return &Crew{Dir: dir, flags: flags, begin: time.Now(), members: make(map[string]*process.Process), changed: make(chan struct{})}
}

// Say prints a line of the story, with its time.
func (c *Crew) Say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(c.begin).Seconds(), fmt.Sprintf(format, args...))
}

// Start runs this program again as processes of the service.
func (c *Crew) Start(names ...string) error {
	for _, name := range names {
		cmd := process.Self(append([]string{"-service", name, "-dir", c.Dir}, c.flags...)...)
		cmd.Stdout = process.Lines(func(line []byte) {
			r := Report{From: name, At: time.Now()}
			if json.Unmarshal(line, &r) == nil {
				c.note(r)
			}
		})
		p, err := process.Start(cmd)
		if err != nil {
			return err
		}
		c.members[name] = p
	}
	return nil
}

func (c *Crew) note(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, r)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Mark is the place in the story from which to look for further reports.
func (c *Crew) Mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// Since returns the reports from mark on.
func (c *Crew) Since(mark int) []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen[mark:])
}

// Wait returns the first report from mark on that fits, within limit.
func (c *Crew) Wait(ctx context.Context, what string, mark int, limit time.Duration, fits func(Report) bool) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		c.mu.Lock()
		for ; mark < len(c.seen); mark++ {
			if r := c.seen[mark]; fits(r) {
				c.mu.Unlock()
				return r, nil
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Report{}, fmt.Errorf("waiting for %s: nothing within %v", what, limit)
		}
	}
}

// Next returns the next report, or an error when none comes in time.
func (c *Crew) Next(ctx context.Context, patience time.Duration) (Report, error) {
	r, err := c.Wait(ctx, "a report", c.next, patience, func(Report) bool { return true })
	if err == nil {
		c.next++
	}
	return r, err
}

// Process is one of them.
func (c *Crew) Process(name string) *process.Process { return c.members[name] }

// Kill ends a process without a word (SIGKILL) and waits for its end.
func (c *Crew) Kill(name string) { c.members[name].Kill() }

// Stop ends a process politely: its standard input ends.
func (c *Crew) Stop(name string) { _ = c.members[name].Stop(stopTime) }

// StopAll is Stop for all processes, at one moment, also for one that is stopped by a signal.
func (c *Crew) StopAll() {
	var all sync.WaitGroup
	for _, p := range c.members {
		all.Go(func() { _ = p.Stop(stopTime) })
	}
	all.Wait()
}

// stopTime is how long a process may take to end.
const stopTime = 10 * time.Second

// Join opens the node of one process. They find each other through a file of addresses. The context
// that comes back, also beside an error, ends with the standard input, which happens also when the
// parent dies.
func Join(ctx context.Context, name, dir string, change ...func(*holdfast.Config)) (context.Context, *holdfast.Cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	peers := filepath.Join(dir, "peers")
	cfg := holdfast.Config{
		Cluster: "example", Name: name, DataDir: filepath.Join(dir, name), Join: []string{"file+" + peers}, TTL: 2 * time.Second,
		Logger: logger(),
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := holdfast.Open(ctx, cfg)
	if err != nil {
		return ctx, nil, err
	}
	if err = process.AppendLine(peers, c.Addr()); err == nil {
		err = c.Ready(ctx)
	}
	if err != nil {
		c.Close()
		return ctx, nil, err
	}
	return ctx, c, nil
}

// IgnoreEnd is err, but nil once ctx has ended: the process was told to stop.
func IgnoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// logger prints errors alone: that a process is out of reach, which the story has killed, is no
// news in its middle.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// leaveTime bounds Leave: an orchestrator kills what does not end in time.
const leaveTime = 3 * time.Second

// Leave ends the node of a process that was told to stop, by SIGTERM, an interrupt or the end of
// its input, and does not come back: its locks are free at once, and another votes in its place.
// One that is to come back on its DataDir would Close. Where another process was killed a moment
// before, the group can't let it go in so short a time; it is closed all the same.
func Leave(c *holdfast.Cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := c.Leave(ctx); err != nil && !errors.Is(err, holdfast.ErrNoQuorum) {
		fmt.Fprintln(os.Stderr, "leaving:", err)
	}
}

// Tell writes a report to the parent, in one piece.
func Tell(r Report) {
	line, _ := json.Marshal(r)
	_, _ = os.Stdout.Write(append(line, '\n'))
}
