//go:build unix

// Command fleet shows holdfast at work. It starts three processes of a small scheduler on this
// machine; the one that holds the lock "scheduler/leader" appends ticks, with its fencing token, to
// a shared file. Then the program kills the holder, starts it again, and stops the next holder for
// longer than its lease lives, and tells what happens. It exits with 0 only if no tick was written
// under a stale token and everything happened in its time.
//
//	go run ./examples/fleet
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var s service
	flag.StringVar(&s.name, "service", "", "run one process of the service under this name (used by the program itself)")
	flag.StringVar(&s.dir, "dir", "", "directory of the fleet")
	flag.DurationVar(&s.ttl, "ttl", 2*time.Second, "how long a lease lives without renewal")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return show(ctx, s.ttl) }
	if s.name != "" {
		run = func() error { return s.run(ctx) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1)
	}
}

// show runs the whole story in a temporary directory.
func show(ctx context.Context, ttl time.Duration) error {
	dir, err := os.MkdirTemp("", "holdfast-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f := newFleet(dir, ttl)
	defer f.StopAll()
	if err := f.tell(ctx); err != nil {
		return err
	}
	return f.summary()
}
