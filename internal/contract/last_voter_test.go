package contract_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// Found by the random test, seed 1002: of two voters one left, and the other was killed before its
// log was written again. It had the removal in its log and did not know that it was committed, so
// it asked the one that had left for its vote, for ever: the commit index was written with the next
// entry alone.
func TestAVoterThatStaysAloneKnowsSoAfterItWasKilled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sim.Node){"killed": (*sim.Node).Kill, "without power": (*sim.Node).Crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim.Run(t, sim.Options{Nodes: 3}, func(s *sim.Sim) {
				stays := s.RaftLeader()
				for _, n := range s.Nodes() {
					if n == stays {
						continue
					}
					if err := n.Cluster().Leave(until(time.Minute)); err != nil {
						t.Fatal(err)
					}
					n.Close()
				}
				end(stays)
				stays.Open()
				stays.Ready()
			})
		})
	}
}

// Found by the random test, seed 1007: a standby died with its disk, and before that could be
// noticed all others left. It was promoted in their place, they were removed, and the group was
// lost.
func TestAStandbyThatHasJustDiedIsNotWhatTheOthersLeaveBehind(t *testing.T) {
	t.Parallel()
	timing := holdfast.Timing{Tick: 100 * time.Millisecond, Heartbeat: time.Second, Election: 4 * time.Second}
	slow := func(_ int, c *holdfast.Config) { c.TTL, c.Timing = time.Minute, timing }
	sim.Run(t, sim.Options{Nodes: 4, Config: slow}, func(s *sim.Sim) {
		voters := testkit.IDs(s.RaftLeader().Cluster().Status().Voters)
		var standby *sim.Node
		for _, n := range s.Nodes() {
			if !slices.Contains(voters, n.Cluster().ID()) {
				standby = n
			}
		}
		time.Sleep(10 * time.Second)
		var all sync.WaitGroup
		for _, n := range s.Nodes() {
			if n == standby {
				all.Go(n.Kill)
				continue
			}
			all.Go(func() {
				time.Sleep(1500 * time.Millisecond)
				if err := n.Cluster().Leave(until(time.Minute)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		standby.Wipe()
		for _, n := range s.Nodes() {
			n.Close()
		}
		for _, n := range s.Nodes() {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
	})
}
