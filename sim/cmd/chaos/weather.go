//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
	"github.com/holdfast-go/holdfast/transport"
)

// reset is the fault that breaks connections.
const reset = "reset"

// weather does harm to the network between the processes, one kind at a time.
type weather struct {
	f *fleet
	r *rand.Rand
}

// change makes bad weather again and again until ctx ends, and leaves it fine.
func (w *weather) change(ctx context.Context) {
	kinds := only(w.f.run.Faults, w.kinds())
	for len(kinds) > 0 && wait(ctx, 300*time.Millisecond+upTo(w.r, 4*time.Second)) {
		touched := w.touched()
		kind := choose(w.r, kinds)
		text, spoil := kind.do(touched)
		w.f.fault(kind.name, text, touched, func() {
			spoil()
			if kind.name != reset { // which is over at once
				wait(ctx, 300*time.Millisecond+upTo(w.r, 3*w.f.run.TTL))
			}
			w.f.relay.Calm()
		})
	}
}

// touched chooses a minority more often than not, and the raft leader among it.
func (w *weather) touched() []int {
	n := len(w.f.slots)
	first := w.r.IntN(n)
	if leader := w.f.leader(); leader >= 0 && chance(w.r, 50) {
		first = leader
	}
	touched := []int{first}
	for _, k := range w.r.Perm(n)[:[]int{0, 0, 1, 1, w.r.IntN(n)}[w.r.IntN(5)]] {
		if k != first {
			touched = append(touched, k)
		}
	}
	return touched
}

// front is what is done to the touched nodes: how to say it, and how to do it.
type front = func(touched []int) (text string, spoil func())

// kinds are the kinds of weather.
func (w *weather) kinds() []deed[front] {
	cut := transport.Faults{Cut: true}
	return []deed[front]{
		{"partition", 3, func(touched []int) (string, func()) {
			others := w.others(touched)
			return fmt.Sprint(touched, " from ", others), func() { w.each(touched, others, cut); w.each(others, touched, cut) }
		}},
		{"isolate", 1, func(touched []int) (string, func()) {
			return fmt.Sprint("each of ", touched), func() { w.each(touched, w.others(nil), cut); w.each(w.others(nil), touched, cut) }
		}},
		{"deaf", 1, func(touched []int) (string, func()) {
			return fmt.Sprint(touched, " hear nobody else"), func() { w.each(w.others(touched), touched, cut) }
		}},
		{"mute", 1, func(touched []int) (string, func()) {
			return fmt.Sprint("nobody else hears ", touched), func() { w.each(touched, w.others(touched), cut) }
		}},
		{reset, 1, func(touched []int) (string, func()) {
			return "all connections", func() {
				for _, i := range touched {
					w.f.relay.Break(i)
				}
			}
		}},
		{story.Storm, 3, func(touched []int) (string, func()) {
			f := w.storm()
			return fmt.Sprintf("loss %.0f %%, twice %.0f %%, delay %v to %v, resets %.1f %%", 100*f.Drop, 100*f.Duplicate, f.Delay, f.Delay+f.Jitter, 100*f.Reset),
				func() { w.each(touched, w.others(nil), f); w.each(w.others(nil), touched, f) }
		}},
	}
}

// each sets the faults of every direction from one of the first to one of the second.
func (w *weather) each(from, to []int, f transport.Faults) {
	for _, i := range from {
		for _, j := range to {
			if i != j {
				w.f.relay.Set(i, j, f)
			}
		}
	}
}

// others are all nodes but the touched ones.
func (w *weather) others(touched []int) (others []int) {
	for k := range w.f.slots {
		if !slices.Contains(touched, k) {
			others = append(others, k)
		}
	}
	return others
}

func (w *weather) storm() transport.Faults {
	f := transport.Faults{
		Drop: w.r.Float64() * 0.5, Duplicate: w.r.Float64() * 0.3, Reorder: w.r.Float64() * 0.3,
		Delay: time.Duration(w.r.IntN(100)) * time.Millisecond, Jitter: time.Duration(1+w.r.IntN(200)) * time.Millisecond,
	}
	if chance(w.r, 30) {
		f.Reset = w.r.Float64() * 0.05
	}
	return f
}
