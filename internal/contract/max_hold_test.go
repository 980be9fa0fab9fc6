package contract_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sim"
)

// In an outage the message said that 7 s remain, where the maximum of the lease left 3 s.
func TestJeopardyKnowsOfMaxHold(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
		const ttl, hold = 15 * time.Second, 10 * time.Second
		l := get(t, s.Node(0).Cluster(), "capped", holdfast.WithTTL(ttl), holdfast.WithMaxHold(hold))
		granted := time.Now()
		s.Node(0).Isolate()
		j := <-l.Jeopardy()
		if left := hold - time.Since(granted); j.Safe || j.Remaining <= 0 || j.Remaining > left || j.Remaining != l.Remaining() {
			t.Errorf("%+v, and %v remain, at most %v do", j, l.Remaining(), left)
		}
	})
}
