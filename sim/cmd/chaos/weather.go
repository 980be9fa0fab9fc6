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
	for wait(ctx, 300*time.Millisecond+rand1(w.r, 4*time.Second)) {
		touched := w.touched()
		name, text, spoil := w.choose(touched)
		w.f.fault(name, text, touched, func() {
			spoil()
			if name != reset { // which is over at once
				wait(ctx, 300*time.Millisecond+rand1(w.r, 3*w.f.run.TTL))
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

// choose chooses what is done to the touched nodes, and says so.
func (w *weather) choose(touched []int) (name, text string, spoil func()) {
	var others []int
	for k := range w.f.slots {
		if !slices.Contains(touched, k) {
			others = append(others, k)
		}
	}
	each := func(from, to []int, f transport.Faults) {
		for _, i := range from {
			for _, j := range to {
				if i != j {
					w.f.relay.Set(i, j, f)
				}
			}
		}
	}
	cut := transport.Faults{Cut: true}
	switch what := w.r.IntN(10); {
	case what < 3:
		return "partition", fmt.Sprint(touched, " from ", others), func() { each(touched, others, cut); each(others, touched, cut) }
	case what < 4:
		return "isolate", fmt.Sprint("each of ", touched), func() { all := w.all(); each(touched, all, cut); each(all, touched, cut) }
	case what < 5:
		return "deaf", fmt.Sprint(touched, " hear nobody"), func() { each(others, touched, cut) }
	case what < 6:
		return "mute", fmt.Sprint("nobody hears ", touched), func() { each(touched, others, cut) }
	case what < 7:
		return reset, "all connections", func() {
			for _, i := range touched {
				w.f.relay.Break(i)
			}
		}
	}
	f := w.storm()
	text = fmt.Sprintf("loss %.0f %%, twice %.0f %%, delay %v to %v, resets %.1f %%", 100*f.Drop, 100*f.Duplicate, f.Delay, f.Delay+f.Jitter, 100*f.Reset)
	return story.Storm, text, func() { all := w.all(); each(touched, all, f); each(all, touched, f) }
}

func (w *weather) all() (all []int) {
	for k := range w.f.slots {
		all = append(all, k)
	}
	return all
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
