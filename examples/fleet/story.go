//go:build unix

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	formTime = 20 * time.Second // for three processes to find each other and form a group
	slack    = 10 * time.Second // by which a dead holder's lock may be granted later than its TTL
	wakeTime = 5 * time.Second  // for a woken process to see that its lease is over
)

// fleet is the three processes and the teller of their story.
type fleet struct {
	*crew.Crew
	ttl   time.Duration
	begin time.Time
	ids   map[string]string // node ids by name
	facts []string          // for the summary
}

// leading waits until somebody else than not leads with a token above floor and has ticked.
func (f *fleet) leading(ctx context.Context, mark int, limit time.Duration, not string, floor fence.Token) (crew.Report, error) {
	return f.Wait(ctx, "a tick of a new holder", mark, limit, func(e crew.Report) bool {
		return e.Event == "tick" && e.From != not && e.Token > floor
	})
}

// tell plays the story; an error means that something did not happen, or not in time.
func (f *fleet) tell(ctx context.Context) error {
	f.Say("three processes start; data in %s, leases live %v", f.Dir, f.ttl)
	names := []string{"amber", "birch", "cedar"}
	if err := f.Start(names...); err != nil {
		return err
	}
	for _, name := range names {
		if err := f.ready(ctx, name, 0); err != nil {
			return err
		}
	}
	f.fact("formed a group of three in %.1f s", time.Since(f.begin).Seconds())
	holder, err := f.leading(ctx, 0, f.ttl+slack, "", 0)
	if err != nil {
		return err
	}
	f.Say("%s holds %s with token %d and ticks", holder.From, scheduler.LockName, holder.Token)

	next, err := f.kill(ctx, holder)
	if err != nil {
		return err
	}
	if err := f.restart(ctx, holder.From); err != nil {
		return err
	}
	return f.freeze(ctx, next)
}

// ready waits until a process is part of the group; a restarted one must be the same node as
// before.
func (f *fleet) ready(ctx context.Context, name string, mark int) error {
	e, err := f.Wait(ctx, name+" to be ready", mark, formTime, func(e crew.Report) bool {
		return e.From == name && e.Event == "ready"
	})
	if err != nil {
		return err
	}
	if id := f.ids[name]; id != "" && id != e.Text {
		return fmt.Errorf("%s came back as another node", name)
	}
	f.ids[name] = e.Text
	f.Say("%s is ready as node %s", name, e.Text)
	return nil
}

// kill ends the holder with SIGKILL: another takes over with a higher token.
func (f *fleet) kill(ctx context.Context, holder crew.Report) (crew.Report, error) {
	mark, at := f.Mark(), time.Now()
	f.Say("%s is killed with SIGKILL", holder.From)
	f.Kill(holder.From)
	next, err := f.leading(ctx, mark, f.ttl+slack, holder.From, holder.Token)
	if err != nil {
		return crew.Report{}, err
	}
	f.Say("%s takes over with token %d", next.From, next.Token)
	f.fact("after SIGKILL of the holder the next tick came after %.1f s (lease %v)", next.At.Sub(at).Seconds(), f.ttl)
	return next, nil
}

// restart starts a killed process again on its data.
func (f *fleet) restart(ctx context.Context, name string) error {
	mark, at := f.Mark(), time.Now()
	f.Say("%s starts again on its data", name)
	if err := f.Start(name); err != nil {
		return err
	}
	if err := f.ready(ctx, name, mark); err != nil {
		return err
	}
	f.fact("the killed process was back as the same node after %.1f s", time.Since(at).Seconds())
	return nil
}

// freeze stops the holder for longer than its lease lives and lets it wake.
func (f *fleet) freeze(ctx context.Context, holder crew.Report) error {
	// Right after a tick, so that the process does not stop with the shared file locked.
	mark := f.Mark()
	last, err := f.Wait(ctx, "a tick of "+holder.From, mark, f.ttl, func(e crew.Report) bool {
		return e.From == holder.From && e.Event == "tick"
	})
	if err != nil {
		return err
	}
	mark, at := f.Mark(), time.Now()
	if err := f.Process(holder.From).Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	f.Say("%s is stopped with SIGSTOP, without knowing it", holder.From)
	next, err := f.leading(ctx, mark, f.ttl+slack, holder.From, last.Token)
	if err != nil {
		return err
	}
	f.Say("%s takes over with token %d", next.From, next.Token)
	f.fact("after SIGSTOP of the holder the next tick came after %.1f s (lease %v)", next.At.Sub(at).Seconds(), f.ttl)

	select {
	case <-time.After(time.Until(at.Add(f.ttl + time.Second))):
	case <-ctx.Done():
		return ctx.Err()
	}
	woken, mark := time.Now(), f.Mark()
	f.Say("%s wakes and goes on", holder.From)
	if err := f.Process(holder.From).Signal(syscall.SIGCONT); err != nil {
		return err
	}
	of := func(kind string) func(crew.Report) bool {
		return func(e crew.Report) bool {
			// A tick would be a write under a lease that is over.
			return e.From == holder.From && (e.Event == kind || e.Event == "tick" || e.Event == "accepted")
		}
	}
	for _, kind := range []string{"lost", "rejected"} {
		e, err := f.Wait(ctx, holder.From+": "+kind, mark, wakeTime, of(kind))
		if err != nil {
			return err
		}
		if e.Event != kind {
			return fmt.Errorf("%s wrote with token %d after its lease was over", holder.From, e.Token)
		}
		f.Say("%s: %s: %s", holder.From, kind, e.Text)
	}
	f.fact("the woken process knew after %.0f ms; its late write was rejected", float64(time.Since(woken).Milliseconds()))
	return nil
}

func (f *fleet) fact(format string, args ...any) {
	f.facts = append(f.facts, fmt.Sprintf(format, args...))
}

// summary checks the shared file and says what was seen.
func (f *fleet) summary() error {
	f.StopAll()
	ticks, err := readLedger(f.Dir)
	if err != nil {
		return err
	}
	tenures, stale := 0, 0
	for i, t := range ticks {
		switch {
		case i == 0 || t.Token > ticks[i-1].Token:
			tenures++
		case t.Token < ticks[i-1].Token || t.Node != ticks[i-1].Node:
			stale++
		}
	}
	fmt.Println("\nSummary")
	for _, fact := range f.facts {
		fmt.Println("  -", fact)
	}
	fmt.Printf("  - %d ticks in %d tenures, %d under a stale token\n", len(ticks), tenures, stale)
	if stale > 0 {
		return fmt.Errorf("%d ticks were written under a stale token", stale)
	}
	if tenures < 3 {
		return fmt.Errorf("only %d tenures: the story did not happen", tenures)
	}
	return nil
}
