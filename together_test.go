package holdfast_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

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
