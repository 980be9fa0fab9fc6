package virtual_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// A fleet that starts is down until it has formed. Nothing in the way to its first locks may wait
// for a poll: what is left is the work of the nodes, and the network.
func TestAFleetServesSoonAfterItsStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nodes int
		limit time.Duration // to the first locks of all nodes, and until all are ready
	}{{3, 500 * time.Millisecond}, {10, time.Second}} {
		sim.Run(t, sim.Options{Nodes: c.nodes, Late: true}, func(s *sim.Sim) {
			begun := time.Now()
			for _, n := range s.Nodes() {
				n.Open()
			}
			var all sync.WaitGroup
			for i, n := range s.Nodes() {
				all.Go(func() { testkit.Get(t, n.Cluster(), string(rune('a'+i))) })
			}
			all.Wait()
			first := time.Since(begun)
			for _, n := range s.Nodes() {
				n.Ready()
			}
			last := time.Since(begun)
			t.Logf("%d nodes: first locks of all after %v, ready after %v", c.nodes, first, last)
			if last > c.limit {
				t.Errorf("that is more than %v", c.limit)
			}
		})
	}
}
