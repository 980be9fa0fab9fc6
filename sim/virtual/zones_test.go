package virtual_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// Three zones, of which one fails as a whole: the voters were spread, so the group serves at once;
// the others take over, and when the zone is back, the next that is replaced is replaced by one of
// it.
func TestAFleetInThreeZonesLosesOneOfThemAndKeepsItsVotersApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, voters, most int }{{6, 3, 1}, {9, 5, 2}} {
		t.Run(fmt.Sprintf("%d voters", c.voters), func(t *testing.T) {
			t.Parallel()
			zoned := func(i int, cfg *holdfast.Config) {
				cfg.Voters, cfg.Bootstrap, cfg.Zone = c.voters, c.nodes, fmt.Sprint("zone", i%3)
			}
			sim.Run(t, sim.Options{Nodes: c.nodes, Config: zoned}, func(s *sim.Sim) {
				lost, rest := s.RaftLeader().Index()%3, []*sim.Node(nil)
				for _, n := range s.Nodes() {
					if n.Index()%3 != lost {
						rest = append(rest, n)
					}
				}
				testkit.Settles(t, time.Minute, "voters", func() bool { return sum(votersIn(rest[0])) == c.voters })
				if spread := votersIn(rest[0]); len(spread) != 3 || most(spread) > c.most {
					t.Fatalf("voters by zone: %v", spread)
				}
				l := testkit.Get(t, rest[0].Cluster(), "kept")
				dead := testkit.Others(s, rest...)
				s.AtOnce(dead, (*sim.Node).Kill)
				began := time.Now()
				if err := testkit.Get(t, rest[1].Cluster(), "door").Release(testkit.Until(time.Minute)); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("without a zone a lock took %v", took)
				}
				testkit.Settles(t, time.Minute, "voters in the other zones", func() bool {
					in := votersIn(rest[0])
					return in[fmt.Sprint("zone", lost)] == 0 && sum(in) == min(c.voters, len(rest))
				})
				// The zone is back: no voter moves for that.
				for _, n := range dead {
					n.Replace()
					n.Open()
				}
				for _, n := range dead {
					n.Ready()
				}
				time.Sleep(time.Minute)
				if in := votersIn(rest[0]); in[fmt.Sprint("zone", lost)] != 0 {
					t.Errorf("voters moved although none failed: %v", in)
				}
				// But one that fails where the voters are crowded is replaced from there.
				crowded := votersIn(rest[0])
				for _, n := range rest[1:] {
					zone := fmt.Sprint("zone", n.Index()%3)
					if n.Cluster().Status().Role == holdfast.RoleVoter && crowded[zone] == most(crowded) {
						n.Kill()
						break
					}
				}
				testkit.Settles(t, time.Minute, "voter in the zone that is back", func() bool {
					in := votersIn(rest[0])
					return in[fmt.Sprint("zone", lost)] == 1 && sum(in) == c.voters
				})
				if !l.Valid() {
					t.Errorf("a node that stayed lost its lease: %v", l.Err())
				}
			})
		})
	}
}

// A zone of a fleet of thirty is away for a while, and the others fill all places. When it is back a
// standby of the most crowded zone makes way for one of it, once, and no voter does; and the next voter
// of a crowded zone that dies is replaced from there. Before, all its nodes stayed clients for ever.
func TestAZoneThatWasAwayIsGivenAReplicaAgain(t *testing.T) {
	t.Parallel()
	zoned := func(i int, cfg *holdfast.Config) {
		five(i, cfg)
		cfg.Zone = fmt.Sprint("zone", i%3)
	}
	sim.Run(t, sim.Options{Nodes: 30, Config: zoned}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 25)
		leader := s.RaftLeader()
		lost := fmt.Sprint("zone", (leader.Index()+1)%3)
		var away []*sim.Node
		for i := (leader.Index() + 1) % 3; i < 30; i += 3 {
			away = append(away, s.Node(i))
		}
		s.AtOnce(away, (*sim.Node).Isolate)
		time.Sleep(40 * time.Second)
		if in := replicasIn(leader); in[lost] != 0 || sum(in) != 5 {
			t.Fatalf("replicas by zone without one: %v", in)
		}
		before := votersIn(leader)
		s.AtOnce(away, (*sim.Node).Rejoin)
		testkit.Settles(t, time.Minute, "a replica in the zone that is back", func() bool {
			in := replicasIn(leader)
			return in[lost] == 1 && most(in) == 2 && sum(in) == 5
		})
		settles(t, s, 3, 2, 25)
		standbys := leader.Cluster().Status().Standbys
		time.Sleep(20 * time.Second)
		if after := votersIn(leader); !maps.Equal(after, before) {
			t.Errorf("voters by zone: %v, before the zone was back %v", after, before)
		}
		if now := leader.Cluster().Status().Standbys; !slices.EqualFunc(now, standbys, func(a, b holdfast.Replica) bool { return a.ID == b.ID }) {
			t.Errorf("standbys were changed again: %v, then %v", standbys, now)
		}
		crowded := votersIn(leader)
		for _, n := range testkit.Others(s, leader) {
			if zone := fmt.Sprint("zone", n.Index()%3); crowded[zone] == most(crowded) && n.Cluster().Status().Role == holdfast.RoleVoter {
				n.Kill()
				break
			}
		}
		testkit.Settles(t, time.Minute, "a voter in the zone that is back", func() bool { return votersIn(leader)[lost] == 1 })
	})
}

// A fleet has more nodes than replicas, and its zones are far apart: the nodes of the founder's own ask
// first. The first choice is among all; it was among those that had asked first.
func TestTheFirstVotersAreOfAllZonesThoughTheNodesOfOneAskFirst(t *testing.T) {
	t.Parallel()
	zoned := func(i int, cfg *holdfast.Config) {
		cfg.Bootstrap, cfg.Replicas, cfg.Zone = 12, 5, fmt.Sprint("zone", i%3)
	}
	for seed := range uint64(3) {
		sim.Run(t, sim.Options{Nodes: 12, Seed: seed + 1, Late: true, Config: zoned}, func(s *sim.Sim) {
			for i := range 12 {
				for j := range i {
					if i%3 != j%3 {
						s.Faults(i, j, transport.Faults{Delay: 40 * time.Millisecond})
					}
				}
			}
			began := time.Now()
			for _, n := range s.Nodes() {
				n.Open()
			}
			for _, n := range s.Nodes() {
				n.Ready()
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the fleet was ready after %v", took)
			}
			if in := votersIn(s.Node(0)); len(in) != 3 {
				t.Errorf("voters by zone: %v", in)
			}
			if in := replicasIn(s.Node(0)); most(in) != 2 || sum(in) != 5 {
				t.Errorf("replicas by zone: %v", in)
			}
		})
	}
}

// replicasIn counts the replicas that live by their zones, as votersIn does.
func replicasIn(n *sim.Node) map[string]int {
	in := votersIn(n)
	for _, m := range n.Cluster().Members() {
		if m.Role == holdfast.RoleStandby && m.State == holdfast.StateAlive {
			in[m.Zone]++
		}
	}
	return in
}

// votersIn counts the voters that live by their zones, as a node's Members show them.
func votersIn(n *sim.Node) map[string]int {
	in := make(map[string]int)
	for _, m := range n.Cluster().Members() {
		if m.Role == holdfast.RoleVoter && m.State == holdfast.StateAlive {
			in[m.Zone]++
		}
	}
	return in
}

func sum(in map[string]int) (all int) {
	for _, k := range in {
		all += k
	}
	return all
}

func most(in map[string]int) (top int) {
	for _, k := range in {
		top = max(top, k)
	}
	return top
}

// Ready of a replacement is what an operator waits for before the next act: it has taken the place
// of the dead one, for which that must be given up first.
func TestReadyOfAReplacementWaitsForReplaceAfter(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{2 * time.Second, 0, 90 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			want := after
			if after == 0 {
				want = 30 * time.Second
			}
			patient := func(_ int, c *holdfast.Config) { c.ReplaceAfter = after }
			sim.Run(t, sim.Options{Nodes: 3, Config: patient}, func(s *sim.Sim) {
				n := testkit.Follower(s, holdfast.RoleVoter)
				began := time.Now()
				n.Kill()
				n.Replace()
				c := n.Open()
				if err := c.Ready(testkit.Until(5 * time.Minute)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < want-time.Second || took > want+6*time.Second {
					t.Errorf("ready after %v, ReplaceAfter is %v", took, want)
				}
				if st := c.Status(); st.Role != holdfast.RoleVoter || len(st.Voters) != 3 {
					t.Errorf("it is ready as %v of %v", st.Role, st.Voters)
				}
				if err := testkit.Others(s, n)[0].Leave(testkit.Until(time.Minute)); err != nil { // the next act
					t.Error(err)
				}
			})
		})
	}
}
