// Command bigfleet shows a fleet that is larger than its group: five processes hold a replica, and
// the others, forty unless -clients says otherwise, are clients of those. Each process holds a lock of
// its own. The program kills replicas one by one: a client takes the place of each, and no process
// that lives loses its lease. It exits with 0 only then.
//
//	go run ./examples/bigfleet
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

const (
	replicas = 5
	kills    = 2
	patience = time.Minute
	look     = 100 * time.Millisecond // between two looks of a process at its role
	ttl      = 10 * time.Second       // so many processes share one machine: a lease outlasts the election after a kill
)

func main() {
	clients := flag.Int("clients", 40, "processes beyond the five that hold a replica")
	crew.Main("bigfleet", serve, func(ctx context.Context) error { return show(ctx, *clients) })
}

// serve is one process: it holds its lock until it is told to stop, and reports its role when that has
// changed.
func serve(ctx context.Context, name, dir string) error {
	ctx, c, err := crew.Join(ctx, name, dir, func(cfg *holdfast.Config) {
		cfg.Replicas, cfg.ReplaceAfter, cfg.TTL = replicas, 3*time.Second, ttl
	})
	if err != nil {
		return crew.IgnoreEnd(ctx, err)
	}
	defer c.Close()
	lease, err := c.Acquire(ctx, name)
	if err != nil {
		return crew.IgnoreEnd(ctx, err)
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for role := ""; ; {
		if now := c.Status().Role.String(); now != role {
			role = now
			crew.Tell(crew.Report{Event: "role", Text: role, Token: lease.Token()})
		}
		select {
		case <-ticker.C:
		case <-lease.Done():
			if ctx.Err() == nil {
				crew.Tell(crew.Report{Event: "lost", Text: lease.Err().Error()})
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// show is the parent.
func show(ctx context.Context, clients int) error {
	return crew.Show("bigfleet", func(c *crew.Crew) error { return tell(ctx, c, clients) })
}

// tell plays the story and checks it.
func tell(ctx context.Context, c *crew.Crew, clients int) error {
	c.Say("%d processes start", replicas+clients)
	for i := range replicas + clients {
		if err := c.Start(fmt.Sprintf("p%02d", i+1)); err != nil {
			return err
		}
	}
	dead := make(map[string]bool)
	all := replicas + clients
	if err := settled(ctx, c, dead, all-replicas); err != nil {
		return err
	}
	c.Say("%d hold a replica, %d are clients, and each holds its lock", replicas, all-replicas)
	for range kills {
		victim := holder(c, dead)
		c.Kill(victim)
		dead[victim] = true
		c.Say("%s, which held a replica, is killed", victim)
		if err := settled(ctx, c, dead, all-len(dead)-replicas); err != nil {
			return err
		}
		c.Say("a client has taken its place")
	}
	select { // who could not renew its lease since the last kill has lost it by then
	case <-time.After(ttl):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, r := range c.Since(0) {
		if r.Event == "lost" {
			return fmt.Errorf("%s lost its lease: %s", r.From, r.Text)
		}
	}
	c.Say("none of the %d that live lost its lease", all-len(dead))
	return nil
}

// roles are those that each process has reported last, without the dead.
func roles(c *crew.Crew, dead map[string]bool) map[string]string {
	now := make(map[string]string)
	for _, r := range c.Since(0) {
		if r.Event == "role" && !dead[r.From] {
			now[r.From] = r.Text
		}
	}
	return now
}

// settled waits until so many are clients, and all others that live hold a replica.
func settled(ctx context.Context, c *crew.Crew, dead map[string]bool, clients int) error {
	deadline := time.Now().Add(patience)
	for {
		mark, are, now := c.Mark(), 0, roles(c, dead)
		for _, role := range now {
			if role == holdfast.RoleClient.String() {
				are++
			}
		}
		if are == clients && len(now) == clients+replicas {
			return nil
		}
		if _, err := c.Wait(ctx, "roles", mark, time.Until(deadline), func(crew.Report) bool { return true }); err != nil {
			return fmt.Errorf("%d of %d processes are clients, not %d: %w", are, len(now), clients, err)
		}
	}
}

// holder is a process that holds a replica.
func holder(c *crew.Crew, dead map[string]bool) (name string) {
	for from, role := range roles(c, dead) {
		if role != holdfast.RoleClient.String() && (name == "" || from < name) {
			name = from
		}
	}
	return name
}
