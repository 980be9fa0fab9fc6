package virtual_test

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// given up is a voter that died, and was not heard for Config.ReplaceAfter; it takes a moment more
// to replace it.
const givenUp = 30*time.Second + 6*time.Second

func acts() []act {
	return []act{
		{name: "a replacement dies", some: []int{31, 9, 30, 34}, all: [2]int{8, 60}, longest: 5 * time.Second, do: replacementDies(1)},
		{name: "two replacements of two die", least: 5, some: []int{31, 9, 35}, all: [2]int{8, 60}, longest: 5 * time.Second, do: replacementDies(2)},
		{name: "a replacement comes", some: []int{20, 0, 31}, all: [2]int{0, 45}, longest: 5 * time.Second, do: replacementComes},
		{name: "machines are made anew one by one", some: []int{0, 1, 33}, all: [2]int{0, 45}, longest: 8 * time.Second, do: madeAnew},
		{name: "machines of a fleet with clients are made anew one by one", spares: 2, clients: 1, some: []int{0, 1, 33}, all: [2]int{0, 45}, longest: 8 * time.Second, do: madeAnew},
		{name: "machines of a fleet with clients are replaced one by one", spares: 2, clients: 1, some: []int{0, 2}, all: [2]int{0, 45}, longest: 8 * time.Second, do: replacedOneByOne},
		{name: "machines are replaced one by one", some: []int{0, 2}, all: [2]int{0, 45}, longest: 8 * time.Second, do: replacedOneByOne},
		{name: "one leaves after another died", spares: 1, some: []int{10, 0, 31}, all: [2]int{0, 40}, longest: 5 * time.Second, do: leavesAfterADeath},
		{name: "all leave after a spare died", spares: 1, some: []int{26, 2}, all: [2]int{2, 40}, do: allLeaveAfterADeath},
		{name: "several leave one after the other", spares: 3, some: []int{3, 0, 10}, all: [2]int{0, 40}, unit: 50 * time.Millisecond, longest: time.Second, do: severalLeave},
		{name: "all leave one after the other", spares: 1, some: []int{4, 0}, all: [2]int{0, 40}, unit: 50 * time.Millisecond, do: allLeave},
		{name: "a newcomer leaves", some: []int{20, 4}, all: [2]int{0, 60}, unit: 25 * time.Millisecond, longest: time.Second, do: newcomerLeaves},
		{name: "the fleet grows and shrinks", some: []int{1, 0}, all: [2]int{0, 20}, longest: time.Second, do: growsAndShrinks},
		{name: "three of five die with a pause", spares: 1, some: []int{38}, all: [2]int{37, 60}, longest: 5 * time.Second, do: spareTakesOver},
	}
}

// A voter dies, or two; replacements start after 8 s, and give up. A dead newcomer was promoted
// before the dead one was removed, and the group was lost.
func replacementDies(dead int) func(sc *scene, at time.Duration) {
	return func(sc *scene, at time.Duration) {
		began := time.Now()
		gone, rest := sc.pick(dead, at%(2*time.Second) == 0)
		sc.stay(rest...)
		sc.die(gone)
		time.Sleep(time.Until(began.Add(8 * time.Second)))
		for _, n := range gone {
			n.Open()
		}
		time.Sleep(time.Until(began.Add(at)))
		sc.die(gone)
		time.Sleep(time.Until(began.Add(at + 40*time.Second)))
		for _, n := range gone {
			n.Open()
		}
		for _, n := range gone {
			n.Ready()
		}
		sc.whole(rest[0])
	}
}

// The replacement comes sooner or later, and stays: it is ready once it votes in the place of the
// dead one.
func replacementComes(sc *scene, at time.Duration) {
	began := time.Now()
	gone, rest := sc.pick(1, at%(2*time.Second) == 0)
	sc.stay(rest...)
	sc.die(gone)
	time.Sleep(time.Until(began.Add(at)))
	opened := time.Now()
	c := gone[0].Open()
	gone[0].Ready()
	if took := time.Since(opened); took > max(givenUp-at, 10*time.Second) {
		sc.t.Errorf("a replacement that came after %v was ready after %v", at, took)
	}
	if st := c.Status(); st.Role != holdfast.RoleVoter {
		sc.t.Errorf("it is ready, and its role is %q of %+v", st.Role, st)
	}
	sc.whole(rest[0])
}

// Hosts are wiped and started at their own addresses, each when the one before is ready.
func madeAnew(sc *scene, at time.Duration) {
	oneByOne(sc, func(n *sim.Node) { n.Reimage(at) })
}

// The same, at other addresses.
func replacedOneByOne(sc *scene, at time.Duration) {
	oneByOne(sc, func(n *sim.Node) {
		sc.die([]*sim.Node{n})
		time.Sleep(at)
		n.Open()
	})
}

func oneByOne(sc *scene, act func(n *sim.Node)) {
	last := sc.s.Nodes()[sc.voters-1]
	sc.stay(last)
	for _, n := range sc.s.Nodes()[:sc.voters-1] {
		act(n)
		n.Ready()
	}
	sc.whole(last)
	sc.over()
	act(last)
	last.Ready()
	sc.whole(last)
	if err := testkit.Get(sc.t, last.Cluster(), "door").Release(testkit.Until(time.Minute)); err != nil {
		sc.t.Error(err)
	}
}

// A voter dies, and another leaves, in a fleet with a spare: it waits where it must, and the group
// goes on.
func leavesAfterADeath(sc *scene, at time.Duration) {
	began := time.Now()
	gone, rest := sc.pick(2, at%(2*time.Second) == 0)
	sc.stay(rest...)
	sc.die(gone[:1])
	time.Sleep(time.Until(began.Add(at)))
	sc.leave(max(givenUp-at, 5*time.Second), gone[1])
}

// Nobody stays but what died before: its death keeps the others until it is given up, and no
// longer. One that died less than a second before may be promoted all the same: no order of changes
// avoids that.
func allLeaveAfterADeath(sc *scene, at time.Duration) {
	began := time.Now()
	all := sc.s.Nodes()
	i := 0
	for all[i].Cluster().Status().Role == holdfast.RoleVoter {
		i++
	}
	all[i].Kill()
	time.Sleep(time.Until(began.Add(at)))
	sc.leave(max(givenUp-at, 5*time.Second), testkit.Others(sc.s)...)
}

// All voters leave a fleet that has others, a moment after each other.
func severalLeave(sc *scene, at time.Duration) {
	some, rest := sc.pick(sc.voters, true)
	sc.stay(rest...)
	staggered(sc, at, some)
	if took := testkit.Settles(sc.t, 10*time.Second, "voters", func() bool { return len(rest[0].Cluster().Status().Voters) > 2 }); took > 5*time.Second {
		sc.t.Errorf("three voters after %v", took)
	}
}

func allLeave(sc *scene, at time.Duration) { staggered(sc, at, sc.s.Nodes()) }

func staggered(sc *scene, pause time.Duration, nodes []*sim.Node) {
	sc.s.AtOnce(nodes, func(n *sim.Node) {
		for _, o := range nodes {
			if o == n {
				break
			}
			time.Sleep(pause)
		}
		sc.leave(5*time.Second, n)
	})
}

// A process that was just started is stopped: its good-bye may overtake its greeting.
func newcomerLeaves(sc *scene, at time.Duration) {
	sc.stay(sc.s.Nodes()...)
	n := sc.s.Add()
	n.Open()
	time.Sleep(at)
	sc.leave(5*time.Second, n)
	sc.whole(sc.s.Node(0))
}

// Pods are added, and taken away again, with every pause.
func growsAndShrinks(sc *scene, at time.Duration) {
	s := sc.s
	sc.stay(s.Node(0))
	for range 2 {
		s.Scale(9)
		time.Sleep(at)
		s.Scale(1)
		time.Sleep(at)
	}
	s.Scale(sc.voters)
	sc.whole(s.Node(0))
}

// Two of five voters die, and a spare takes the place of one: one more may die. Of three one dies
// first.
func spareTakesOver(sc *scene, at time.Duration) {
	gone, rest := sc.pick(sc.voters/2, false)
	next := testkit.Others(sc.s, append(gone, sc.s.RaftLeader())...)[0]
	for i, n := range rest {
		if n == next {
			rest = append(rest[:i:i], rest[i+1:]...)
		}
	}
	sc.stay(rest...)
	sc.die(gone)
	time.Sleep(at)
	sc.die([]*sim.Node{next})
	time.Sleep(10 * time.Second)
}
