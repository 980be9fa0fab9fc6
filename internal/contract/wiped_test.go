package contract_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/sim"
)

// An operator who makes hosts anew one after the other waits for the Ready of each.
func TestAWipedHostHasItsPlaceAgainWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, victim := range map[string]func(s *sim.Sim) *sim.Node{
		"of a follower":       func(s *sim.Sim) *sim.Node { return follower(s, holdfast.RoleVoter) },
		"of the raft leader":  func(s *sim.Sim) *sim.Node { return s.RaftLeader() },
		"with a standby more": func(s *sim.Sim) *sim.Node { return follower(s, holdfast.RoleVoter) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := 3
			if strings.Contains(name, "standby") {
				nodes = 4
			}
			sim.Run(t, sim.Options{Nodes: nodes}, func(s *sim.Sim) {
				time.Sleep(5 * time.Second)
				n := victim(s)
				old := n.Cluster().ID()
				began := time.Now()
				c := n.Reimage(100 * time.Millisecond)
				if err := c.Ready(until(time.Minute)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("ready after %v", took)
				}
				for _, v := range c.Status().Voters {
					if v.ID == old {
						t.Errorf("the voters are %v", c.Status().Voters)
					}
				}
			})
		})
	}
}

// A voter that is away for a while keeps its vote, whoever comes meanwhile.
func TestNoNewcomerTakesThePlaceOfAVoterThatIsAway(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(away string, cfg *holdfast.Config){
		"at its address, under another name":     func(away string, cfg *holdfast.Config) { cfg.Bind, cfg.Name = away, "another" },
		"with its name, at another address":      func(string, *holdfast.Config) {},
		"with its Advertise and its name copied": func(away string, cfg *holdfast.Config) { cfg.Advertise = away },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moving(t, func(m *movers) {
				away := m.nodes[2]
				id, addr := away.ID(), away.Addr()
				away.Close()
				time.Sleep(2 * time.Second)
				cfg := holdfast.Config{Bind: "10.0.0.9:7643", Join: []string{origin(0)}, Bootstrap: -1, Logger: quiet(), Secrets: []string{"a secret of this fleet"}}
				change(addr, &cfg)
				c, err := holdfast.Open(simenv.With(context.Background(), simenv.Env{Network: m.network}), cfg)
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					time.Sleep(time.Second)
					if list := m.nodes[0].Status().Voters; !slices.ContainsFunc(list, func(r holdfast.Replica) bool { return r.ID == id }) {
						t.Fatalf("the voters are %v, without the one that is away", list)
					}
				}
				c.Close()
				m.open(2, "10.0.0.8:7643")
				if err := m.nodes[2].Ready(until(time.Minute)); err != nil {
					t.Fatal(err)
				}
				if m.nodes[2].ID() != id {
					t.Error("it came back as another node")
				}
			})
		})
	}
}
