//go:build unix

package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/report/story"
)

func TestASeedChoosesTheSameFaultsAgain(t *testing.T) {
	t.Parallel()
	names := func(seed uint64) (all []string) {
		r := rand.New(rand.NewPCG(seed, 1))
		for range 50 {
			all = append(all, choose(r, (&weather{}).kinds()).name)
		}
		return all
	}
	if !slices.Equal(names(7), names(7)) {
		t.Error("one seed, two stories")
	}
	if slices.Equal(names(7), names(8)) {
		t.Error("two seeds, one story")
	}
}

func TestEveryKindOfFaultIsChosenSoonerOrLater(t *testing.T) {
	t.Parallel()
	x := &nemesis{f: &fleet{}, disks: map[int]bool{0: true}}
	r, seen := rand.New(rand.NewPCG(1, 1)), make(map[string]bool)
	for range 1000 {
		seen[choose(r, x.deeds()).name] = true
		seen[choose(r, (&weather{}).kinds()).name] = true
	}
	for _, name := range []string{
		"kill", "kill all", "stop", "stop holder", "restart", "roll", "wipe", "leave", "full disk",
		"partition", "isolate", "deaf", "mute", "reset", "storm",
	} {
		if !seen[name] {
			t.Errorf("%s never happens", name)
		}
	}
}

func TestARunCanBeOfOneKindAlone(t *testing.T) {
	t.Parallel()
	x := &nemesis{f: &fleet{run: story.Run{Faults: []string{"kill", "storm", "full disk"}}}}
	for _, d := range x.deeds() {
		if d.name != "kill" {
			t.Errorf("%s was not asked for, or needs a disk that there is not", d.name)
		}
	}
	if kinds := only(x.f.run.Faults, (&weather{}).kinds()); len(kinds) != 1 || kinds[0].name != story.Storm {
		t.Errorf("%d kinds of weather", len(kinds))
	}
}

func TestWhatIsDoneIsRecordedFromBeforeItBeganToAfterItEnded(t *testing.T) {
	t.Parallel()
	f := bare(t)
	var done time.Duration
	f.fault("stop", "", []int{1}, func() { done = f.now() })
	var from, to time.Duration
	for _, l := range f.lines {
		switch l.Kind {
		case story.KindFault:
			from = l.From
		case story.KindFaultEnd:
			to = l.To
		}
	}
	if from == 0 || from > done || to < done {
		t.Errorf("from %v to %v, done at %v: a healthy node would be blamed for what was done to it", from, to, done)
	}
}

func TestOneHandAtATimeHasTheLifeOfAProcess(t *testing.T) {
	t.Parallel()
	s := bare(t).slots[0]
	if !s.claim() || s.claim() {
		t.Error("two hands at once")
	}
	s.unclaim()
	if !s.claim() {
		t.Error("nobody gets it again")
	}
}
