//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
)

func TestASeedChoosesTheSameFaultsAgain(t *testing.T) {
	t.Parallel()
	names := func(seed uint64) (all []string) {
		r := rand.New(rand.NewPCG(seed, 1))
		for range 50 {
			all = append(all, choose(r, (&networkNemesis{}).kinds()).name)
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
		seen[choose(r, x.kinds()).name] = true
		seen[choose(r, (&networkNemesis{}).kinds()).name] = true
	}
	for _, name := range []string{
		"kill", "kill all", "stop", "stop holder", "restart", "roll", "wipe", "leave", "full disk", "hang",
		"replace", "reimage", "batch", "leave several", "scale", "down", "move", "revoke", "revoke living",
		"partition", "isolate", "deaf", "mute", "reset", "storm", "no gossip", "no raft", "siege", "large",
	} {
		if !seen[name] {
			t.Errorf("%s never happens", name)
		}
	}
}

func TestNothingEndsAFleetWithoutDisksAtOnce(t *testing.T) {
	t.Parallel()
	x := &nemesis{f: &fleet{run: story.Run{Diskless: true}}}
	for _, d := range x.kinds() {
		if slices.Contains([]string{"kill all", "down", "full disk", "move", "hang"}, d.name) {
			t.Errorf("%s is done to a fleet without disks: no majority of the voters would live", d.name)
		}
	}
}

// Some seeds have no disks, some the default time after which a voter is replaced; what is short
// sees replacements all the same.
func TestSeedsChooseFleetsOfEveryKind(t *testing.T) {
	t.Parallel()
	diskless, after, long, clients := make(map[bool]bool), make(map[time.Duration]bool), make(map[time.Duration]bool), make(map[int]bool)
	for seed := range uint64(200) {
		run := chosen(story.Run{Seed: seed, Nodes: 5, Duration: 2 * time.Minute})
		diskless[run.Diskless], after[run.ReplaceAfter], long[run.Long], clients[run.Clients] = true, true, true, true
		if run.Nodes-run.Clients != 6 || run.Spares != 1 || run.Long < 2*time.Minute {
			t.Fatalf("%+v", run)
		}
		if short := chosen(story.Run{Seed: seed, Nodes: 5, Duration: 20 * time.Second}); short.ReplaceAfter == 0 || short.ReplaceAfter > 10*time.Second {
			t.Fatalf("%v: nothing is replaced in so short a run", short.ReplaceAfter)
		}
	}
	if len(diskless) != 2 || len(after) != 4 || len(long) != 3 || len(clients) != 3 {
		t.Errorf("%v %v %v %v", diskless, after, long, clients)
	}
	if run := chosen(story.Run{Seed: 1, Diskless: true, ReplaceAfter: time.Minute}); !run.Diskless || run.ReplaceAfter != time.Minute {
		t.Errorf("%+v is not what was asked for", run)
	}
}

func TestASpareMachineTakesANodeOnceAndIsFreeAgain(t *testing.T) {
	t.Parallel()
	f := bare(t)
	f.slots[2].vacant = true
	x := &nemesis{f: f, r: rand.New(rand.NewPCG(1, 1))}
	for range 100 {
		if i := x.any(); i == 2 {
			t.Fatal("nothing runs there, and it gets a fault")
		}
	}
	s := f.vacancy()
	if s == nil || s.i != 2 {
		t.Fatalf("%+v is the machine on which nothing runs", s)
	}
	if f.vacancy() != nil {
		t.Error("two take it at once")
	}
	s.unclaim()
	f.slots[0].vacate()
	if all := f.inhabited(); !slices.Equal(all, []int{1}) {
		t.Errorf("something runs on %v", all)
	}
}

func TestACopyOfADiskProvesNothing(t *testing.T) {
	t.Parallel()
	f := bare(t)
	from, to := f.slots[0], f.slots[1]
	name := filepath.Join("node", "file")
	if err := os.MkdirAll(from.disk(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from.data, name), []byte("what it stored"), 0o600); err != nil {
		t.Fatal(err)
	}
	to.proof = true // of what ran there before
	to.copyDisk(from)
	if text, err := os.ReadFile(filepath.Join(to.data, name)); err != nil || string(text) != "what it stored" || to.proof {
		t.Errorf("%q, %v, proof %v", text, err, to.proof)
	}
	for _, l := range f.lines {
		if l.Kind == story.KindWrong {
			t.Error(l.Text)
		}
	}
}

func TestARunCanBeOfOneKindAlone(t *testing.T) {
	t.Parallel()
	x := &nemesis{f: &fleet{run: story.Run{Faults: []string{"kill", "storm", "full disk"}}}}
	for _, d := range x.kinds() {
		if d.name != "kill" {
			t.Errorf("%s was not asked for, or needs a disk that there is not", d.name)
		}
	}
	if kinds := only(x.f.run.Faults, (&networkNemesis{}).kinds()); len(kinds) != 1 || kinds[0].name != story.Storm {
		t.Errorf("%d kinds of faults of the network", len(kinds))
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
