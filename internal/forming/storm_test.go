package forming_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
)

// A candidate asks the first two that it sees, and has their votes at once. By then it sees a
// fleet, in which two votes tell nothing.
func TestTheVotesOfBootstrapNodesAreNotEnoughInALargerFleet(t *testing.T) {
	t.Parallel()
	f := node("a", 3)
	f.Step(at(0, fresh("x", "y")...))
	peers := fresh("x", "y")
	for c := 'b'; c <= 'k'; c++ {
		peers = append(peers, fresh(string(c))...)
	}
	ballot := uint64(1<<32 | 1)
	f.Receive(granted("x", "a", ballot, unix))
	f.Receive(granted("y", "a", ballot, unix))
	o := f.Step(at(1*second, peers...))
	if o.Action == forming.Form {
		t.Fatal("formed with 3 of the 13 nodes in sight, of which the others may do the same")
	}
	for _, m := range o.Send {
		f.Receive(granted(m.To, "a", ballot, unix))
	}
	if o = f.Step(at(1*second, peers...)); o.Action != forming.Form || len(o.Send) > 0 {
		t.Errorf("with 7 of 13: %+v", o)
	}
}

// Forty processes that start at once on two cores hear of each other late. In one start of forty a
// node with a low id that came last founded a second group a second after the first: it had not
// heard of that yet, and of forty others two had not voted. The second group had added replicas by
// then, so that it could never yield, and its founder was never ready. With two followers more,
// both groups would have served.
func TestALargeFleetThatStartsAtOnceFormsOneGroup(t *testing.T) {
	t.Parallel()
	const seeds, slots = 60, 16
	split := 0
	for seed := range uint64(seeds) {
		w := newWorld(seed)
		w.machines, w.bootstrap, w.identities = nil, 3, 0
		w.loss, w.dup, w.delay, w.chaos = 0, 0, 2*time.Second, 0
		for slot := range slots {
			m := &machine{slot: slot, up: time.Duration(w.Int64N(int64(time.Second))), starved: time.Duration(w.Int64N(int64(2 * time.Second)))}
			w.machines = append(w.machines, m)
			w.mint(m)
		}
		check := func(err error) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		check(w.run(20 * time.Second))
		w.heal()
		check(w.run(25 * time.Second))
		if w.apart() {
			split++
			continue
		}
		check(w.run(40 * time.Second))
		check(w.settled())
	}
	if split > 0 {
		t.Errorf("%d of %d fleets have two groups that others have joined", split, seeds)
	}
}
