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
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process"
)

// Report is a line on the standard output of a process.
type Report struct {
	Event string `json:"event"`
	N     int    `json:"n,omitempty"`
	Text  string `json:"text,omitempty"`
	From  string `json:"-"` // the process that said it
}

// Crew is the processes of the service, as their parent sees them.
type Crew struct {
	dir     string
	begin   time.Time
	members map[string]*process.Process
	reports chan Report
}

// New is a crew whose processes keep their data below dir.
func New(dir string) *Crew {
	return &Crew{dir: dir, begin: time.Now(), members: make(map[string]*process.Process), reports: make(chan Report, 1024)}
}

// Say prints a line of the story, with its time.
func (c *Crew) Say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(c.begin).Seconds(), fmt.Sprintf(format, args...))
}

// Start runs this program again as one process of the service.
func (c *Crew) Start(name string) error {
	cmd := process.Self("-service", name, "-dir", c.dir)
	cmd.Stdout = process.Lines(func(line []byte) {
		r := Report{From: name}
		if json.Unmarshal(line, &r) == nil {
			c.reports <- r
		}
	})
	p, err := process.Start(cmd)
	if err == nil {
		c.members[name] = p
	}
	return err
}

// Next returns the next report, or an error when none comes in time.
func (c *Crew) Next(ctx context.Context, patience time.Duration) (Report, error) {
	select {
	case r := <-c.reports:
		return r, nil
	case <-time.After(patience):
		return Report{}, fmt.Errorf("no process reported anything for %v", patience)
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
}

// Kill ends a process without a word (SIGKILL) and waits for its end.
func (c *Crew) Kill(name string) { c.members[name].Kill() }

// Stop ends a process politely: its standard input ends.
func (c *Crew) Stop(name string) { _ = c.members[name].Stop(stopTime) }

// StopAll is Stop for all processes, at one moment.
func (c *Crew) StopAll() { StopAll(c.members) }

// stopTime is how long a process may take to end.
const stopTime = 10 * time.Second

// StopAll ends processes politely, at one moment.
func StopAll(members map[string]*process.Process) {
	var all sync.WaitGroup
	for _, p := range members {
		all.Go(func() { _ = p.Stop(stopTime) })
	}
	all.Wait()
}

// Join opens the node of one process. They find each other through a file of addresses. The context
// that comes back ends with the standard input, which happens also when the parent dies.
func Join(ctx context.Context, name, dir string) (context.Context, *holdfast.Cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	peers := filepath.Join(dir, "peers")
	c, err := holdfast.Open(ctx, holdfast.Config{
		Cluster: "example", Name: name, DataDir: filepath.Join(dir, name), Join: []string{"file+" + peers}, TTL: 2 * time.Second,
		Logger: Logger(),
	})
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(peers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, c.Addr())
		f.Close()
	}
	if err == nil {
		err = c.Ready(ctx)
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return ctx, c, nil
}

// Logger prints errors alone: that a process is out of reach, which the story has killed, is no
// news in its middle.
func Logger() *slog.Logger {
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

// Tell writes a report to the parent.
func Tell(event string, n int, text string) {
	line, _ := json.Marshal(Report{Event: event, N: n, Text: text})
	_, _ = os.Stdout.Write(append(line, '\n'))
}
