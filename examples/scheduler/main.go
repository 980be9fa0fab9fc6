//go:build unix

// Command scheduler shows a leader-elected cron: three processes know the same schedule
// (robfig/cron's), one of them leads and runs the ticks. Each tick runs under Once with the key of
// its Slot, and the leader notes the last tick in its election's value: the next leader makes good
// what nobody ran in between. A guard of package fence refuses the late write of a former runner.
// The program kills the leader, starts it again, and lets the next one hand over in good order. It
// exits with 0 only if every tick ran exactly once.
//
//	cd examples/scheduler && go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	job      = "report"
	spec     = "* * * * * *" // every second
	every    = time.Second
	patience = 30 * time.Second
	ttl      = 10 * time.Second // a leader that lives keeps its lease through an election, on a slow disk as well
)

func main() { crew.Main("scheduler", serve, show) }

// serve is one process: a candidate, and the scheduler while it leads.
func serve(ctx context.Context, name, dir string) error {
	schedule, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		return err
	}
	ctx, c, err := crew.Join(ctx, name, dir, func(cfg *holdfast.Config) { cfg.TTL = ttl })
	if err != nil {
		return err
	}
	defer crew.Leave(c)
	marks, err := fence.OpenFile(filepath.Join(dir, "marks"))
	if err != nil {
		return err
	}
	defer marks.Close()
	err = c.Lead(ctx, "scheduler", func(ctx context.Context, l *holdfast.Lease) error {
		crew.Tell(crew.Report{Event: "leads"})
		return lead(ctx, c, l, schedule, func(ctx context.Context, key string, token holdfast.Token) error {
			// One mark for the job, not one for each tick: ticks run in order, each under a higher
			// token, and marks are kept forever.
			return marks.Do(ctx, job, token, func() error { return work(dir, key, name) })
		})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead runs every tick after the last one that was noted, until ctx ends.
func lead(ctx context.Context, c *holdfast.Cluster, l *holdfast.Lease, schedule cron.Schedule,
	work func(ctx context.Context, key string, token holdfast.Token) error,
) error {
	last := time.Now().UTC()
	info, err := c.Inspect(ctx, l.Name())
	if err != nil {
		return err
	}
	if len(info.Value) > 0 { // what a leader before this one has noted
		err = last.UnmarshalText(info.Value)
	} else { // the first leader: if it dies in its first tick, the next one knows that a tick was missed
		err = note(ctx, l, last)
	}
	if err != nil {
		return err
	}
	for {
		tick := schedule.Next(last)
		select {
		case <-time.After(time.Until(tick)): // at once for one that was missed
		case <-ctx.Done():
			return ctx.Err()
		}
		key := holdfast.Slot(job, tick, every)
		r, err := c.Once(ctx, key, func(ctx context.Context, run *holdfast.Lease) error {
			return work(ctx, key, run.Token()) // ctx ends with the lease of this run
		}, holdfast.WithWait())
		if err != nil {
			return err
		}
		if err := note(ctx, l, tick); err != nil {
			return err
		}
		if r.Ran {
			crew.Tell(crew.Report{Event: "ran", Text: key})
		}
		last = tick
	}
}

// note keeps the last tick for the next leader. It is refused if the leadership is lost.
func note(ctx context.Context, l *holdfast.Lease, last time.Time) error {
	text, err := last.MarshalText()
	if err != nil {
		return err
	}
	return l.Set(ctx, text)
}

// work is what must happen exactly once for each tick. A guard stands before it: a process that was
// stopped for longer than its lease lives, while another ran the tick, is refused by its token.
func work(dir, key, name string) error {
	f, err := os.OpenFile(filepath.Join(dir, "ticks"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, key, name)
	return err
}

func show(ctx context.Context) error {
	return crew.Show("scheduler", func(team *crew.Crew) error { return tell(ctx, team) })
}

// tell plays the story and checks it.
func tell(ctx context.Context, team *crew.Crew) error {
	team.Say("three processes start")
	if err := team.Start("amber", "birch", "cedar"); err != nil {
		return err
	}
	first, err := ticks(ctx, team, 3, "")
	if err != nil {
		return err
	}
	// Right after a tick: one that is killed in the middle of its work may have done it all the
	// same, and only the resource can know.
	team.Say("%s is killed", first)
	team.Kill(first)
	if _, err = ticks(ctx, team, 5, first); err != nil {
		return err
	}
	team.Say("%s starts again", first)
	if err := team.Start(first); err != nil {
		return err
	}
	second, err := ticks(ctx, team, 3, "")
	if err != nil {
		return err
	}
	team.Say("%s stops in good order", second)
	team.Stop(second)
	if _, err = ticks(ctx, team, 3, second); err != nil {
		return err
	}
	team.StopAll()
	return check(ctx, team.Dir)
}

// ticks waits for so many ticks by others than not, and returns who ran the last.
func ticks(ctx context.Context, team *crew.Crew, n int, not string) (string, error) {
	for {
		r, err := team.Next(ctx, patience)
		if err != nil {
			return "", err
		}
		switch {
		case r.Event == "leads":
			team.Say("%s leads", r.From)
		case r.From != not:
			team.Say("%s ran %s", r.From, r.Text)
			if n--; n == 0 {
				return r.From, nil
			}
		}
	}
}

// check reads what was done: every second from the first tick to the last, once each, in order, and no
// mark for any of them.
func check(ctx context.Context, dir string) error {
	marks, err := fence.OpenFile(filepath.Join(dir, "marks"))
	if err != nil {
		return err
	}
	defer marks.Close()
	text, err := os.ReadFile(filepath.Join(dir, "ticks"))
	if err != nil {
		return err
	}
	var last time.Time
	count, runners := 0, make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		key, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(key, job+"@"))
		if err != nil {
			return err
		}
		if count > 0 && at.Sub(last) != every {
			return fmt.Errorf("%s came after %v", key, last)
		}
		mark, err := marks.Highest(ctx, key)
		if err != nil {
			return err
		}
		if mark != 0 {
			return fmt.Errorf("%s has a mark of its own, which stays forever", key)
		}
		count, last = count+1, at
		runners[name] = true
	}
	if len(runners) < 2 {
		return errors.New("the story did not happen: one process ran all ticks")
	}
	fmt.Printf("\n%d ticks in %d processes, every second one, each once\n", count, len(runners))
	return nil
}
