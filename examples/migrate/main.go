// Command migrate shows a database migration that runs on one node while the others wait. Three
// processes of a service start at once and all want the newest schema. One of them migrates step by
// step and notes each step in the value of the lock, as a checkpoint. The program kills it in the
// middle: another one goes on with the next step, not with the first. It exits with 0 only if every
// step ran, in order and once, but for the one that the killed process may have had in its hands, and
// no process served before the last.
//
//	go run ./examples/migrate
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

const (
	lockName = "schema"
	target   = 8 // the newest schema
	stepTime = 500 * time.Millisecond
	patience = 30 * time.Second
	ttl      = 10 * time.Second // a lease of a process that lives outlasts the election after the kill, on a slow disk as well
)

func main() { crew.Main("migrate", serve, show) }

// serve is one process: it migrates, or waits for who does, and then serves.
func serve(ctx context.Context, name, dir string) error {
	ctx, c, err := crew.Join(ctx, name, dir, func(cfg *holdfast.Config) { cfg.TTL = ttl })
	if err != nil {
		return err
	}
	defer crew.Leave(c)
	version := 0
	err = c.Do(ctx, lockName, func(ctx context.Context, l *holdfast.Lease) error {
		info, err := c.Inspect(ctx, lockName)
		if err != nil {
			return err
		}
		if len(info.Value) > 0 { // no value: nothing was migrated yet
			if version, err = strconv.Atoi(string(info.Value)); err != nil {
				return err
			}
		}
		for version < target {
			if err := migrate(ctx, dir, version+1); err != nil {
				return err
			}
			version++
			if err := l.Set(ctx, []byte(strconv.Itoa(version))); err != nil { // refused if the lease is lost
				return err
			}
			crew.Tell(crew.Report{Event: "migrated", N: version})
		}
		return nil
	})
	if err != nil {
		return err
	}
	crew.Tell(crew.Report{Event: "serves", N: version})
	<-ctx.Done()
	return nil
}

// migrate is one step. A real one runs in the database's transaction, which also tests the fencing
// token.
func migrate(ctx context.Context, dir string, version int) error {
	select {
	case <-time.After(stepTime):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f, err := os.OpenFile(filepath.Join(dir, "schema"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, version)
	return err
}

func show(ctx context.Context) error {
	return crew.Show("migrate", func(team *crew.Crew) error { return tell(ctx, team) })
}

// tell plays the story and checks it.
func tell(ctx context.Context, team *crew.Crew) error {
	team.Say("three processes start, all want schema %d", target)
	names := []string{"amber", "birch", "cedar"}
	if err := team.Start(names...); err != nil {
		return err
	}
	killed, migrators, serving := "", make(map[string]bool), 0
	for serving < len(names) {
		r, err := team.Next(ctx, patience)
		if err != nil {
			return err
		}
		switch r.Event {
		case "migrated":
			migrators[r.From] = true
			team.Say("%s has migrated to schema %d", r.From, r.N)
			if r.N == target/2 && killed == "" {
				killed = r.From
				team.Say("%s is killed in the middle", killed)
				team.Kill(killed)
				team.Say("%s starts again", killed)
				if err := team.Start(killed); err != nil {
					return err
				}
			}
		case "serves":
			serving++
			team.Say("%s serves schema %d", r.From, r.N)
			if r.N != target {
				return fmt.Errorf("%s serves at schema %d", r.From, r.N)
			}
		}
	}
	if killed == "" || len(migrators) < 2 {
		return fmt.Errorf("the story did not happen: %d processes migrated", len(migrators))
	}
	return check(team.Dir)
}

// check reads what was done to the schema. The program kills right after a checkpoint, while the
// next step has just begun, or somewhat later on a busy machine: the step that was killed between its
// write and its checkpoint runs twice, as there is no transaction.
func check(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "schema"))
	if err != nil {
		return err
	}
	steps := strings.Fields(string(text))
	once := slices.Compact(slices.Clone(steps))
	want := make([]string, target)
	for i := range want {
		want[i] = strconv.Itoa(i + 1)
	}
	if !slices.Equal(once, want) || len(steps) > target+1 || !slices.Equal(steps[:target/2], want[:target/2]) {
		return fmt.Errorf("the steps were %v", steps)
	}
	if len(steps) == target {
		fmt.Printf("\nEvery step ran once and in order: %s\n", strings.Join(steps, " "))
	} else {
		fmt.Printf("\nEvery step ran in order, and one twice because a process was killed with it in its hands: %s\n", strings.Join(steps, " "))
	}
	return nil
}
