package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
)

func open(ctx context.Context) *holdfast.Cluster {
	c, err := holdfast.Open(ctx, holdfast.Config{}) // a single node, in memory
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// The leader publishes where it can be reached, and resigns by returning.
func ExampleCluster_Lead() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	err := c.Lead(ctx, "scheduler", func(ctx context.Context, l *holdfast.Lease) error {
		leader, err := c.Leader(ctx, "scheduler")
		fmt.Printf("the leader is at %s\n", leader.Value)
		return err // ctx would have ended with the leadership
	}, holdfast.WithValue([]byte("10.0.0.7:8080")))
	fmt.Println(err)
	_, err = c.Leader(ctx, "scheduler")
	fmt.Println(errors.Is(err, holdfast.ErrNoLeader))
	// Output:
	// the leader is at 10.0.0.7:8080
	// <nil>
	// true
}

// A router to the leader follows its changes.
func ExampleCluster_Observe() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	lead := func() {
		_ = c.Lead(ctx, "scheduler", func(context.Context, *holdfast.Lease) error { return nil },
			holdfast.WithValue([]byte("10.0.0.7:8080")))
	}
	led := false
	for leader, err := range c.Observe(ctx, "scheduler") { // how it is now, and then every change
		if err != nil {
			log.Fatal(err)
		}
		if leader.NodeID != "" {
			fmt.Printf("to %s\n", leader.Value)
			led = true
			continue
		}
		fmt.Println("nobody leads")
		if led {
			break
		}
		go lead()
	}
	// Output:
	// nobody leads
	// to 10.0.0.7:8080
	// nobody leads
}

// A webhook may be delivered several times, to any process of the fleet. It is handled once.
func ExampleCluster_Once() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	for range 3 {
		r, err := c.Once(ctx, "webhook/7f3a", func(ctx context.Context, l *holdfast.Lease) error {
			fmt.Println("handled")
			return nil
		}, holdfast.WithKeepFor(72*time.Hour))
		fmt.Println(r.Ran, r.Finished, err)
	}
	// Output:
	// handled
	// true true <nil>
	// false true <nil>
	// false true <nil>
}

// Every node wakes for every tick, by a clock of its own; one of them runs it.
func ExampleSlot() {
	tick := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fmt.Println(holdfast.Slot("report", tick, time.Hour))
	fmt.Println(holdfast.Slot("report", tick.Add(-20*time.Second), time.Hour)) // a clock that is slow
	// Output:
	// report@2026-03-01T12:00:00Z
	// report@2026-03-01T12:00:00Z
}

// Two locks together, in whatever order others want them.
func ExampleCluster_AcquireAll() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	l, err := c.AcquireAll(ctx, []string{"{account}/7", "{account}/8"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.TryAcquire(ctx, "{account}/8")
	fmt.Println("taken:", errors.Is(err, holdfast.ErrHeld))
	fmt.Println(l.Release(ctx))
	// Output:
	// taken: true
	// <nil>
}

// What happens to all locks whose names begin with "job/".
func ExampleCluster_Watch() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	events := c.Watch(ctx, "job/") // begins here
	err := c.Do(ctx, "job/report", func(ctx context.Context, l *holdfast.Lease) error {
		return l.Set(ctx, []byte("half"))
	}, holdfast.WithLabel("nightly"))
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range events {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %s %s %q\n", e.Kind, e.Name, e.Holder.Label, e.Holder.Value)
		if e.Kind == holdfast.EventReleased {
			break
		}
	}
	// Output:
	// granted job/report nightly ""
	// value job/report nightly "half"
	// released job/report nightly ""
}

// Why does this take so long? Ask who has the lock.
func ExampleCluster_WhyBlocked() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	if _, err := c.Acquire(ctx, "report", holdfast.WithLabel("nightly, started by cron")); err != nil {
		log.Fatal(err)
	}
	why, err := c.WhyBlocked(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range why.Holders {
		fmt.Println(h.Label, "- free in a TTL if it died now:", h.Remaining > 0 && h.Remaining <= 15*time.Second)
	}
	fmt.Println("cycles:", len(why.Cycles))
	// Output:
	// nightly, started by cron - free in a TTL if it died now: true
	// cycles: 0
}

// A library that wants a sync.Locker gets one, and the program says what happens when the lock is
// lost.
func ExampleCluster_Locker() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	mu, err := c.Locker("index", func(err error) { log.Fatal(err) })
	if err != nil {
		log.Fatal(err)
	}
	mu.Lock()
	fmt.Println("mine:", mu.Token() > 0)
	mu.Unlock()
	// Output:
	// mine: true
}

// A scheduler that asks before each tick whether it is the one.
func ExampleCluster_Campaign() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	campaign, err := c.Campaign(ctx, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	defer campaign.Close(ctx)
	schedule := make(chan time.Time) // of a scheduler that runs on every node
	for range schedule {
		if l := campaign.Lease(); l != nil {
			fmt.Println("this node ticks, and fences what it writes with token", l.Token())
		}
	}
}

// A migration tool that locks in one call and unlocks in another.
func ExampleCluster_BeginOnce() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	run, _, err := c.BeginOnce(ctx, "schema-42", holdfast.WithKeepFor(30*24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	// It migrates the schema, with run.Lease().Token() for each write.
	fmt.Println(run.Finish(ctx))
	again, result, err := c.BeginOnce(ctx, "schema-42")
	fmt.Println(again == nil, result.Finished, err)
	// Output:
	// <nil>
	// true true <nil>
}

// A tool, or one of many processes, locks with the fleet without a replica of its own.
func ExampleConfig_client() {
	ctx := context.Background()
	c := open(ctx) // a node of the fleet
	defer c.Close()
	tool, err := holdfast.Open(ctx, holdfast.Config{ClientOnly: true, Join: []string{c.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer tool.Close()
	err = tool.Do(ctx, "backup", func(ctx context.Context, l *holdfast.Lease) error {
		_, err := c.TryAcquire(ctx, "backup")
		fmt.Println(errors.Is(err, holdfast.ErrHeld))
		return nil
	})
	fmt.Println(err, tool.Status().Role)
	// Output:
	// true
	// <nil> client
}

// The raft leader stores a backup each period, whichever node that is: the directory of a fleet is a mount
// that all nodes have, or the function sends the backup to an object store. What is stored is checked
// before it gets its name, and the newest ones are kept.
func ExampleConfig_backups() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "backups")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	stored := make(chan holdfast.BackupInfo, 1)
	c, err := holdfast.Open(ctx, holdfast.Config{
		BackupEvery: time.Second, // an hour, in a fleet
		BackupTo: func(_ context.Context, backup io.Reader) error {
			info, err := store(dir, backup, 24)
			if err == nil {
				select {
				case stored <- info:
				default:
				}
			}
			return err // in the log, and in Metrics.Backups
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(ctx, "orders", holdfast.WithValue([]byte("kept"))); err != nil {
		log.Fatal(err)
	}
	for info := range stored {
		if info.Names > 0 {
			fmt.Println("stored with the lock and its value")
			break
		}
	}
	// Output: stored with the lock and its value
}

// store writes a backup, checks it, gives it the name of its moment, and keeps the newest.
func store(dir string, backup io.Reader, keep int) (info holdfast.BackupInfo, err error) {
	f, err := os.CreateTemp(dir, "*.part")
	if err != nil {
		return info, err
	}
	defer os.Remove(f.Name()) // nothing, once it has its name
	defer f.Close()
	if _, err := io.Copy(f, backup); err != nil { // to its end, where an error says that it is not whole
		return info, err
	}
	if err := f.Sync(); err != nil {
		return info, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return info, err
	}
	if info, err = holdfast.CheckBackup(f); err != nil {
		return info, err
	}
	name := info.Written.UTC().Format("20060102T150405.000000000") + ".hf"
	if err := errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(dir, name)), syncDir(dir)); err != nil {
		return info, err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.hf")) // in the order of their moments
	for ; err == nil && len(old) > keep; old = old[1:] {
		err = os.Remove(old[0])
	}
	return info, err
}

// syncDir makes the names in a directory survive a power cut. Windows has no call for that.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
