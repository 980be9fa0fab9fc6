//go:build unix

package processes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// An election timeout of a minute is no help: the survivors go by the connections of the dead
// process, which its kernel has closed.
func TestTheRaftLeadersDeathCostsNoElectionTimeout(t *testing.T) {
	t.Parallel()
	p := procs(t, 3, func(cfg *processConfig) { cfg.Election = time.Minute })
	testkit.Settles(t, time.Minute, "three voters", func() bool { return len(p[0].must(order{Op: "status"}).Status.Voters) == 3 })
	for range 3 {
		dead := -1
		testkit.Polled(t, "raft leader", func() bool { // an election may be under way
			leader := p[0].must(order{Op: "status"}).Status.RaftLeader
			dead = slices.IndexFunc(p, func(p *proc) bool { return p.must(order{Op: "status"}).Node == leader })
			return dead >= 0
		})
		survivor := p[(dead+1)%3]
		survivor.must(order{Op: "acquire", Name: "lock", TTL: time.Minute})
		survivor.must(order{Op: "release", Name: "lock"})
		p[dead].kill()
		killed := time.Now()
		survivor.must(order{Op: "acquire", Name: "lock", TTL: time.Minute, Timeout: 2 * time.Minute})
		if took := time.Since(killed); took > 20*time.Second {
			t.Errorf("after the raft leader's death a lock took %v", took)
		}
		survivor.must(order{Op: "release", Name: "lock"})
		p[dead].start()
		p[dead].ready()
	}
}
