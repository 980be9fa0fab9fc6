//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
	"github.com/holdfast-go/holdfast/transport"
)

// The faults that break connections, and that cut a holder of a lock with a long TTL off until its
// node is replaced.
const (
	reset = "reset"
	siege = "siege"
)

const largeMax = 600 // bytes that pass where what is large is lost: heartbeats do

type networkNemesis struct {
	f *fleet
	r *rand.Rand
}

// change breaks the network again and again until ctx ends, and leaves it whole.
func (w *networkNemesis) change(ctx context.Context) {
	kinds := only(w.f.run.Faults, w.kinds())
	besieged := len(w.f.run.Faults) > 0 || workload.Chance(w.r, 50) // half of the runs begin with a siege, as soon as there is whom
	for len(kinds) > 0 && wait(ctx, 300*time.Millisecond+workload.UpTo(w.r, 4*time.Second)) {
		kind := choose(w.r, kinds)
		if !besieged && len(w.f.keepers()) > 0 {
			kind, besieged = faultKind[networkFault]{siege, 1, w.siege}, true
		}
		touched, lasts := w.touched(), 300*time.Millisecond+workload.UpTo(w.r, 3*w.f.run.TTL)
		switch kind.name {
		case reset: // which is over at once
			lasts = 0
		case siege:
			touched, lasts = w.f.keepers(), w.f.replaced()+workload.UpTo(w.r, 3*w.f.run.TTL)
		}
		if len(touched) == 0 || !w.f.takeNetwork(ctx) {
			continue
		}
		text, spoil := kind.do(touched)
		w.f.fault(kind.name, text, touched, func() {
			spoil()
			wait(ctx, lasts)
			w.f.relay.Calm()
		})
		w.f.giveNetwork()
	}
}

func (f *fleet) takeNetwork(ctx context.Context) bool {
	select {
	case f.network <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fleet) giveNetwork() { <-f.network }

// replaced is how long a node must be away at least to be replaced.
func (f *fleet) replaced() time.Duration {
	return cmp.Or(f.run.ReplaceAfter, 30*time.Second) + 2*time.Second
}

// keepers is the node that was the last to be granted a lock with a long TTL, if it runs.
func (f *fleet) keepers() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range slices.Backward(f.lines) {
		if l.Event != nil && l.Event.Kind == history.Granted && workload.IsLong(l.Event.Lock) {
			if s := f.slots[l.Node]; s.up && s.life == l.Life {
				return []int{l.Node}
			}
		}
	}
	return nil
}

// touched chooses a minority more often than not, and the raft leader among it.
func (w *networkNemesis) touched() []int {
	n := len(w.f.slots)
	first := w.f.living(w.r)
	if leader := w.f.leader(); leader >= 0 && workload.Chance(w.r, 50) {
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

// networkFault is what is done to the touched nodes: how to say it, and how to do it.
type networkFault = func(touched []int) (text string, spoil func())

func (w *networkNemesis) kinds() []faultKind[networkFault] {
	cut := transport.Faults{Cut: true}
	return []faultKind[networkFault]{
		{"partition", 3, func(touched []int) (string, func()) {
			others := w.others(touched)
			return fmt.Sprint(touched, " from ", others), func() { w.each(touched, others, cut); w.each(others, touched, cut) }
		}},
		{"isolate", 1, func(touched []int) (string, func()) {
			return fmt.Sprint("each of ", touched), func() { w.around(touched, cut) }
		}},
		{"deaf", 1, func(touched []int) (string, func()) {
			return fmt.Sprint(touched, " hear nobody else"), func() { w.each(w.others(touched), touched, cut) }
		}},
		{"mute", 1, func(touched []int) (string, func()) {
			return fmt.Sprint("nobody else hears ", touched), func() { w.each(touched, w.others(touched), cut) }
		}},
		{"no gossip", 2, func(touched []int) (string, func()) {
			return fmt.Sprint("of ", touched), func() { w.around(touched, transport.Faults{CutGossip: true}) }
		}},
		{"no raft", 2, func(touched []int) (string, func()) {
			return fmt.Sprint("of ", touched), func() { w.around(touched, transport.Faults{CutRaft: true}) }
		}},
		{story.Large, 2, func(touched []int) (string, func()) {
			return fmt.Sprintf("what is above %d bytes, to and from %v", largeMax, touched),
				func() { w.around(touched, transport.Faults{Large: largeMax}) }
		}},
		{siege, 1, w.siege},
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
				func() { w.around(touched, f) }
		}},
	}
}

func (w *networkNemesis) siege(touched []int) (string, func()) {
	how := w.r.IntN(4)
	f := []transport.Faults{{Cut: true}, {Cut: true}, {CutGossip: true}, {CutRaft: true}}[how]
	what := []string{"all", "all", "gossip", "raft"}[how]
	return fmt.Sprint(what, " of ", touched, ", which holds a lock for long"), func() { w.around(touched, f) }
}

func (w *networkNemesis) around(touched []int, f transport.Faults) {
	w.each(touched, w.others(nil), f)
	w.each(w.others(nil), touched, f)
}

func (w *networkNemesis) each(from, to []int, f transport.Faults) {
	for _, i := range from {
		for _, j := range to {
			if i != j {
				w.f.relay.Set(i, j, f)
			}
		}
	}
}

func (w *networkNemesis) others(touched []int) (others []int) {
	for k := range w.f.slots {
		if !slices.Contains(touched, k) {
			others = append(others, k)
		}
	}
	return others
}

func (w *networkNemesis) storm() transport.Faults {
	f := transport.Faults{
		Drop: w.r.Float64() * 0.5, Duplicate: w.r.Float64() * 0.3, Reorder: w.r.Float64() * 0.3,
		Delay: time.Duration(w.r.IntN(100)) * time.Millisecond, Jitter: time.Duration(1+w.r.IntN(200)) * time.Millisecond,
	}
	if workload.Chance(w.r, 30) {
		f.Reset = w.r.Float64() * 0.05
	}
	return f
}
