package autopilot_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// before counts the living voters that were there before the repair.
func (w *world) before() (n int) {
	for i := range w.slot {
		if w.at(i) == voterWell && !w.is(i, successor) {
			n++
		}
	}
	return n
}

// repairMoves calls yield with every world that may come next while a group replaces its dead:
// nodes die and come back at any step, as many at a time as like, but the voters that were there
// before and live remain a majority of those wanted. Successors die as they like. Then no step, and
// no death, may lose the group. Nobody leaves, and changes arrive: what becomes of the others is
// explored by moves.
func (w world) repairMoves(nodes, want int, yield func(string, world, error)) {
	check := func(what string, n world) {
		if n.lost() {
			yield(what, n, errors.New("P4: successors that die lose the group"))
			return
		}
		n.led(what, yield)
	}
	if i := w.find(asked); i >= 0 {
		n := w
		n.apply(i, change{removes: w.bits&askedRemoves != 0})
		check("done", n)
	} else if plan := autopilot.Next(w.input(want)); plan.Kind > autopilot.Wait {
		n := w
		yield(fmt.Sprintf("%s %s", plan.Kind, plan.Node), n, n.ask(plan))
	}
	n := w
	n.moment()
	yield("a moment", n, nil)
	for i := range nodes {
		n, p := w, w.at(i)
		if p.votes() && !p.lives() && w.is(i, asked) { // its removal is on its way: the group does not count on its return
			continue
		}
		switch p {
		case empty:
			n.put(i, candidate)
		case standbyNew, standbyFresh:
			n.put(i, p+1)
		case standbyReady:
			n.put(i, standbyFresh)
		case standbyDead:
			n.put(i, standbyNew)
		case voterWell:
			n.put(i, voterFresh)
			n.slot[i] &^= leader
			if n.before() > want/2 {
				check("dies", n)
			}
			continue
		case voterSilent:
			n.put(i, voterLong)
			yield("is silent for long", n, nil)
			fallthrough
		case voterFresh, voterLong:
			n.put(i, voterWell)
		default:
			continue
		}
		yield("goes on", n, nil)
	}
}

// Of five voters two died, and two newcomers took their places, on one host, which died: they were
// two of six then, since one of the dead voted still, and three of six are no majority.
func TestSuccessorsThatDieCostNoMoreThanTheyBring(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, want int }{{5, 3}, {7, 5}} {
		t.Run(fmt.Sprintf("%d nodes of which %d shall vote", c.nodes, c.want), func(t *testing.T) {
			t.Parallel()
			list, seen := []world{full(c.want)}, make(map[world]bool)
			most, dead := 0, 0
			for i := 0; i < len(list); i++ {
				all, living := list[i].voters()
				most, dead = max(most, all), max(dead, all-living)
				list[i].repairMoves(c.nodes, c.want, func(what string, n world, err error) {
					if err != nil {
						t.Fatalf("%v, %s: %v: %v", list[i], what, n, err)
					}
					slices.Sort(n.slot[:c.nodes])
					if !seen[n] {
						seen[n] = true
						list = append(list, n)
					}
				})
			}
			if most < c.want || dead < c.want/2 {
				t.Errorf("no history has more than %d voters and %d dead", most, dead)
			}
			t.Log(len(list), "worlds")
		})
	}
}
