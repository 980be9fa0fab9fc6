package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// A copy of the directory of a node that lives has a higher incarnation. When the group had refused
// it and it had ended, gossip went on to tell where it had been, and nobody reached the node.
func TestTheHighestIncarnationThatIsHereWins(t *testing.T) {
	t.Parallel()
	table, now := newTable(Meta{Node: "self"}), time.Unix(0, 0)
	table.alive(Meta{Node: "a", Incarnation: 2}, "new", now)
	table.alive(Meta{Node: "a", Incarnation: 1}, "old", now)
	table.gone("a", 1, now)
	table.suspect("a", 1, now)
	if m, _ := table.get("a"); m.Addr != "new" || m.State != Alive || m.Incarnation != 2 {
		t.Errorf("an older life changed the member to %+v", m)
	}
	table.alive(Meta{Node: "a", Incarnation: 1}, "old", now)
	table.gone("a", 2, now)
	if m, _ := table.get("a"); m.Addr != "old" || m.State != Alive || m.Incarnation != 1 || table.alone() {
		t.Errorf("the life that stays has not its place back: %+v", m)
	}
	table.gone("a", 1, now)
	if m, _ := table.get("a"); m.Addr != "new" || m.State != Failed || len(table.members["a"]) != 1 || !table.alone() {
		t.Errorf("when both are gone the later one counts: %+v", m)
	}
	table.alive(Meta{Node: "a", Incarnation: 3}, "newer", now)
	if m, _ := table.get("a"); m.Addr != "newer" || m.State != Alive {
		t.Errorf("the next life is seen as %+v", m)
	}
	for i := range uint64(3 * departedMax) { // a copy that is started over and over
		table.alive(Meta{Node: "a", Incarnation: 4 + i}, "copy", now)
		table.gone("a", 4+i, now)
	}
	if m, _ := table.get("a"); m.Addr != "newer" || len(table.members["a"]) > 2 {
		t.Errorf("after many copies: %+v, and %d lives", m, len(table.members["a"]))
	}
}

// An announcement on a slow stream came after gossip had brought what follows: the raft leader took a node
// that ran for one that asks for a replica, until that node's next change.
func TestALateAnnouncementReplacesNoNews(t *testing.T) {
	t.Parallel()
	table, now := newTable(Meta{Node: "self"}), time.Unix(0, 0)
	phase := func() autopilot.Phase { m, _ := table.get("a"); return m.Phase }
	table.alive(Meta{Node: "a", Replica: 1, Phase: autopilot.PhaseJoining}, "x", now)
	table.announced(Meta{Node: "a", Replica: 1, Phase: autopilot.PhaseStarting})
	if phase() != autopilot.PhaseStarting {
		t.Errorf("phase %v after an announcement", phase())
	}
	table.announced(Meta{Node: "a", Replica: 1, Phase: autopilot.PhaseJoining})
	if phase() != autopilot.PhaseStarting {
		t.Errorf("phase %v after a late announcement", phase())
	}
	table.announced(Meta{Node: "a", Replica: 2, Phase: autopilot.PhaseJoining}) // its next life
	if phase() != autopilot.PhaseJoining {
		t.Errorf("phase %v of the next life", phase())
	}
}

func TestSuspicionEndsWithAnAnswerAndRaisesNobody(t *testing.T) {
	t.Parallel()
	table, now := newTable(Meta{Node: "self"}), time.Unix(0, 0)
	state := func() State { m, _ := table.get("a"); return m.State }
	table.alive(Meta{Node: "a"}, "x", now)
	table.suspect("a", 0, now)
	if state() != Suspect || table.alone() {
		t.Errorf("state %v: a suspect is still here", state())
	}
	table.answered("a", 0, now)
	if state() != Alive {
		t.Errorf("state %v after an answer", state())
	}
	table.gone("a", 0, now)
	table.answered("a", 0, now)
	table.suspect("a", 0, now)
	if state() != Failed || !table.alone() {
		t.Errorf("state %v: only memberlist says who is alive again", state())
	}
}

func TestMembersThatAreGoneAreBounded(t *testing.T) {
	t.Parallel()
	table := newTable(Meta{Node: "self"})
	table.alive(Meta{Node: "self"}, "self", time.Unix(0, 0))
	for i := range 3 * departedMax {
		phase := autopilot.PhaseRunning
		if i%3 == 0 {
			phase = autopilot.PhaseLeaving
		}
		node := fmt.Sprintf("%04d", i)
		table.alive(Meta{Node: node, Phase: phase}, "x", time.Unix(int64(i), 0))
		table.gone(node, 0, time.Unix(int64(i), 0))
	}
	members := table.list()
	if len(members) != departedMax+1 {
		t.Errorf("%d members are remembered, want %d", len(members), departedMax+1)
	}
	for _, m := range members[:departedMax] {
		if m.State == Left {
			t.Fatal("one that left is remembered in the place of one that failed")
		}
	}
	if _, ok := table.get(fmt.Sprintf("%04d", 3*departedMax-1)); !ok {
		t.Error("the last one that failed is forgotten")
	}
}

// The copy of a node's directory was opened elsewhere, was refused, and ended; the former process
// is started again, with as many starts as the copy had. If chance gave the copy the higher number
// nobody ever found the node again, and it was not even told that the group had removed it. (Found
// by real processes whose disk had moved.)
func TestARivalThatEndedDoesNotHideTheNode(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	const copied, former = 9, 5
	for name, events := range map[string]func(*table){
		"it was started before the copy was given up": func(t *table) {
			t.alive(Meta{Node: "a", Incarnation: former}, "former", now)
			t.gone("a", copied, now)
		},
		"and after": func(t *table) {
			t.gone("a", copied, now)
			t.alive(Meta{Node: "a", Incarnation: former}, "former", now)
		},
	} {
		table := newTable(Meta{Node: "self"})
		table.alive(Meta{Node: "a", Incarnation: copied}, "copy", now)
		events(table)
		if m, _ := table.get("a"); m.Addr != "former" || m.State != Alive {
			t.Errorf("%s: the node is seen as %+v", name, m)
		}
		table.gone("a", former, now)
		if m, _ := table.get("a"); m.State != Failed {
			t.Errorf("%s: and its end is seen as %+v", name, m)
		}
	}
	table := newTable(Meta{Node: "self"})
	table.alive(Meta{Node: "a", Incarnation: copied}, "copy", now)
	table.alive(Meta{Node: "a", Incarnation: former}, "former", now)
	table.gone("a", former, now)
	table.gone("a", copied, now)
	if m, _ := table.get("a"); m.Addr != "copy" || m.State != Failed {
		t.Errorf("both ended, and the node is seen as %+v", m)
	}
}

// Hundreds of nodes look at the list many times a second: it is made anew only after a change, and
// what a caller has of it stays as it was.
func TestTheListIsMadeOnceForEachChange(t *testing.T) {
	t.Parallel()
	table, now := newTable(Meta{Node: "self"}), time.Unix(0, 0)
	table.alive(Meta{Node: "self"}, "self", now)
	table.alive(Meta{Node: "a"}, "x", now)
	for i, change := range []func(){
		func() { table.suspect("a", 0, now) },
		func() { table.answered("a", 0, now) },
		func() { table.announced(Meta{Node: "a", Applied: 7}) },
		func() { table.alive(Meta{Node: "b"}, "y", now) },
		func() { table.gone("a", 0, now) },
	} {
		before := table.list()
		if again := table.list(); &again[0] != &before[0] {
			t.Errorf("before change %d the list is made twice", i)
		}
		kept := slices.Clone(before)
		change()
		if after := table.list(); slices.Equal(after, kept) || !slices.Equal(before, kept) {
			t.Errorf("change %d: %+v was %+v, and is %+v", i, kept, before, after)
		}
	}
}
