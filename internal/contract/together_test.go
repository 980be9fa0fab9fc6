package contract_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// An entry of the log costs the group the same whatever is in it: what the callers of a node ask
// for at the same time shares entries, and each caller has its own answer. One caller alone shares
// with nobody.
func TestManyCallersOfANodeShareEntriesOfTheLog(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		n := s.Nodes()[0]
		load := func(callers, pairs int) (entries uint64) {
			before := n.Cluster().Status().Applied
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for range pairs {
						l := get(t, n.Cluster(), fmt.Sprint("lock ", i))
						if err := l.Release(until(time.Minute)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			return n.Cluster().Status().Applied - before
		}
		if entries := load(1, 20); entries < 40 {
			t.Errorf("20 pairs of one caller made %d entries", entries)
		}
		if entries := load(200, 5); entries > 200*5*2/5 {
			t.Errorf("%d commands made %d entries", 200*5*2, entries)
		}
	})
}

// Commands of 600 callers share entries, many of the callers give up while theirs is under way, and
// the raft leader is closed in the middle. An answer that went to another call would be a grant
// that two believe in, or a lock that nobody knows of and that is never free again.
func TestInAStormOfCallersThatGiveUpEachAnswerGoesToItsCall(t *testing.T) {
	// Alone: where the race detector has one processor the callers leave nothing to nodes of other tests.
	const callers, locks, calls = 600, 40, 40
	list := fleet(t, 3)
	allReady(t, list)
	at := -1
	polled(t, "raft leader", func() bool { // an election may be under way
		at = slices.IndexFunc(list, func(c *holdfast.Cluster) bool { return c.ID() == list[0].Status().RaftLeader })
		return at >= 0
	})
	leader, n := list[at], list[(at+1)%3]
	var mu sync.Mutex
	tokens := make(map[holdfast.Token]int)
	granted := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tokens) >= locks
	}
	var all sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for call := 0; call < calls || !granted(); call++ {
				if i == 0 && call == calls/2 {
					testkit.ClosedWithin(t, leader, time.Minute) // among callers that leave it a fraction of a core
				}
				// Callers of the same patience give up all their calls on a slow machine: it doubles.
				patience := 20 * time.Millisecond << min(call/calls, 9)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(patience))))
				l, err := n.Acquire(ctx, fmt.Sprint("lock ", r.IntN(locks)))
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				if before, twice := tokens[l.Token()]; twice {
					t.Errorf("callers %d and %d have token %d", before, i, l.Token())
				}
				tokens[l.Token()] = i
				mu.Unlock()
				if err := l.Release(within(t, time.Minute)); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	for i := range locks { // what a caller gave up is withdrawn, or ends with its TTL
		release(t, acquire(t, n, fmt.Sprint("lock ", i)))
	}
}
