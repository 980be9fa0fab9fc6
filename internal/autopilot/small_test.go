package autopilot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/autopilot"
)

// full is a group of so many voters that are well.
func full(voters int) world {
	w := world{bits: listening}
	for i := range voters {
		w.put(i, voterWell)
	}
	w.slot[0] |= leader
	return w
}

// explore visits every world that can come of one founder among so many nodes, or of a group of
// them all, which may be more voters than are wanted now. rules is a world without nodes.
func explore(nodes, want int, rules world) (worlds int, err error) {
	type step struct {
		from int32
		what string
	}
	type visited struct {
		world
		step
	}
	var list []visited
	seen := make(map[uint64]bool)
	for _, voters := range []int{1, nodes} {
		w := full(voters)
		w.standbys, w.mixed, w.zones, w.sick = rules.standbys, rules.mixed, rules.zones, rules.sick
		list = append(list, visited{w, step{from: -1}})
		seen[w.key()] = true
	}
	rest, pause := make(map[uint64]bool), make(map[uint64]bool) // that are known to lead to one
	story := func(i int32, last string) string {
		lines := []string{last}
		for ; i >= 0; i = list[i].from {
			lines = append(lines, fmt.Sprintf("%s: %v", list[i].what, list[i].world))
		}
		for a, b := 0, len(lines)-1; a < b; a, b = a+1, b-1 {
			lines[a], lines[b] = lines[b], lines[a]
		}
		return strings.Join(lines, "\n")
	}
	for i := int32(0); int(i) < len(list); i++ {
		w := list[i].world
		if e := errors.Join(w.settle(want, false, rest), w.settle(want, true, pause)); e != nil {
			return len(list), fmt.Errorf("%w\n%s", e, story(i, "then nobody dies any more"))
		}
		plan := autopilot.Next(w.input(want))
		if e := w.judge(plan, want); e != nil {
			return len(list), fmt.Errorf("%w\n%s", e, story(i, plan.Kind.String()+" "+plan.Node))
		}
		visit := func(what string, n world, e error) {
			if e != nil && err == nil {
				err = fmt.Errorf("%w\n%s", e, story(i, fmt.Sprintf("%s: %v", what, n)))
			}
			if k := n.key(); e == nil && !seen[k] {
				seen[k] = true
				list = append(list, visited{n, step{i, what}})
			}
		}
		w.moves(nodes, plan, visit)
		if cause, e := w.spurred(nodes, want, plan, visit); e != nil {
			return len(list), fmt.Errorf("%w\n%s", e, story(i, cause))
		}
		if err != nil {
			return len(list), err
		}
	}
	return len(list), nil
}

// spurred visits what comes of a step that the raft leader takes on an operator's order, or for an
// heir of a silent voter.
func (w *world) spurred(nodes, want int, plan autopilot.Plan, visit func(string, world, error)) (cause string, err error) {
	for _, node := range names[:nodes] {
		ordered := autopilot.Next(w.ordered(want, node))
		if ordered.Kind != autopilot.Remove || ordered.Node != node || ordered == plan {
			continue // it does nothing by order
		}
		if err := w.judgeOrder(ordered); err != nil {
			return "by order", err
		}
		w.shellMoves(ordered, visit)
	}
	for voter := range nodes {
		for heir := range nodes {
			if w.at(voter) != voterSilent || !w.at(heir).follows() && w.at(heir) != candidate {
				continue
			}
			plan := autopilot.Next(w.inherited(want, names[voter], names[heir]))
			if err := w.judgeHeir(plan, heir); err != nil {
				return "with an heir", err
			}
			if plan.Kind == autopilot.Remove && plan.Node == names[voter] {
				w.shellMoves(plan, visit)
			}
		}
	}
	return "", nil
}

// sixVar has larger fleets explored, too: eight minutes of a processor and 3 GB.
const sixVar = "HOLDFAST_SIX"

// Every fleet of up to five nodes, or six, every number of voters that fits, every history: nodes
// that come, die at any step and come back, leave in any number, end for good; raft leaders that
// change and know old things; changes that arrive late, whose outcome nobody hears, or that are
// never made. What apply excuses is all that the package comment admits.
func TestNoHistoryOfASmallFleetLosesItsGroupAndEachComesToRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, want int }{
		{3, 1}, {3, 3}, {4, 1}, {4, 3}, {5, 1}, {5, 3}, {5, 5}, {6, 3}, {6, 5},
	} {
		if c.nodes > 5 && os.Getenv(sixVar) == "" || testing.Short() && c.nodes > 4 {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes of which %d shall vote", c.nodes, c.want), func(t *testing.T) {
			t.Parallel()
			worlds, err := explore(c.nodes, c.want, world{})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(worlds, "worlds")
		})
	}
}

// Fleets of more nodes than replicas: a node that loses its replica asks for one again, standbys come
// back after their places were taken, some nodes can do nothing without a replica, and some cannot start theirs.
// With zones, the fleet has three. What a step does no later one undoes, or the fleet would never come to rest.
func TestNoHistoryOfASmallFleetWithClientsLosesItsGroupAndEachComesToRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nodes, want int
		standbys    uint8
		mixed, sick bool // not sick with zones: world.key has no room for both
		zones       bool
		long        bool
	}{
		{4, 1, 1, true, true, false, false}, {5, 3, 1, false, false, false, false},
		{4, 3, 1, true, true, false, true}, {5, 1, 2, false, true, false, true}, {5, 3, 1, true, false, false, true}, {5, 3, 1, false, true, false, true},
		{4, 1, 1, false, false, true, false}, {4, 1, 2, false, false, true, false}, {5, 1, 1, false, false, true, false}, {4, 1, 1, true, false, true, true}, {5, 1, 2, false, false, true, true},
	} {
		if c.long && os.Getenv(sixVar) == "" || testing.Short() && c.nodes > 4 {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes, %d and %d replicas, mixed %v, sick %v, zones %v", c.nodes, c.want, c.standbys, c.mixed, c.sick, c.zones), func(t *testing.T) {
			t.Parallel()
			worlds, err := explore(c.nodes, c.want, world{standbys: c.standbys, mixed: c.mixed, sick: c.sick, zones: c.zones})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(worlds, "worlds")
		})
	}
}

// Seven voters and two more nodes are too many for all histories: some of them, at random.
func TestNoRandomHistoryOfNineNodesLosesTheirGroup(t *testing.T) {
	t.Parallel()
	walks := 200
	if testing.Short() {
		walks = 60
	}
	most := 0
	for seed := range walks {
		reached, err := walk(seed, full(7-seed%2*2))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		most = max(most, reached)
	}
	if most <= 7 {
		t.Errorf("no walk got beyond %d voters: none was promoted before another was removed", most)
	}
}

// The same with zones, and more nodes than replicas.
func TestNoRandomHistoryOfNineNodesWithClientsInZonesLosesTheirGroup(t *testing.T) {
	t.Parallel()
	walks := 200
	if testing.Short() {
		walks = 60
	}
	for seed := range walks {
		w := full(5 - seed%2*2)
		w.standbys, w.mixed, w.zones, w.sick = uint8(1+seed%3), seed%5 == 0, true, true
		if _, err := walk(seed, w); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// walk takes one way through the moves and answers the most voters that the group had.
func walk(seed int, w world) (most int, _ error) {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	want, _ := w.voters()
	for range 300 {
		var kinds []string
		all := make(map[string][]world)
		plan, err := zoned(w.input(want))
		if err = errors.Join(err, w.judge(plan, want)); err != nil {
			return most, fmt.Errorf("%w: %v", err, w)
		}
		w.moves(slots, plan, func(what string, n world, e error) {
			if e != nil && err == nil {
				err = fmt.Errorf("%w: %v; %s: %v", e, w, what, n)
			}
			if len(all[what]) == 0 {
				kinds = append(kinds, what)
			}
			all[what] = append(all[what], n)
		})
		if err != nil {
			return most, err
		}
		kind := kinds[0] // what the raft leader does, or the answer to what it has asked for
		if random.IntN(2) == 0 {
			kind = kinds[random.IntN(len(kinds))]
		}
		next := all[kind][random.IntN(len(all[kind]))]
		if err := errors.Join(next.settle(want, false, nil), next.settle(want, true, nil)); err != nil {
			return most, fmt.Errorf("after %v: %w", w, err)
		}
		w = next
		voters, _ := w.voters()
		most = max(most, voters)
	}
	return most, nil
}
