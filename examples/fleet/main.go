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
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

func main() {
	ttl := flag.Duration("ttl", 2*time.Second, "how long a lease lives without renewal")
	crew.Main("fleet", func(ctx context.Context, name, dir string) error { return serve(ctx, name, dir, *ttl) },
		func(ctx context.Context) error { return show(ctx, *ttl) })
}

// show runs the whole story in a temporary directory.
func show(ctx context.Context, ttl time.Duration) error {
	return crew.Show("fleet", func(c *crew.Crew) error {
		f := &fleet{Crew: c, ttl: ttl, begin: time.Now(), ids: make(map[string]string)}
		if err := f.tell(ctx); err != nil {
			return err
		}
		return f.summary()
	}, "-ttl", ttl.String())
}
