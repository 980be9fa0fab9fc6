package virtual_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/internal/testlog"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// goOver is how long it may take until a second group that was founded by mistake is gone: who
// joins a node that does not answer tries again every eight seconds, and looks once a minute
// whether it has to.
const goOver = 90 * time.Second

// inGroup wants the nodes in one group, and returns it.
func inGroup(t *testing.T, nodes ...*sim.Node) string {
	t.Helper()
	group := nodes[0].Cluster().Status().ClusterID
	for _, n := range nodes {
		if id := n.Cluster().Status().ClusterID; id != group || id == "" {
			t.Fatalf("node %d is in group %q, node %d in %q", n.Index(), id, nodes[0].Index(), group)
		}
	}
	return group
}

func goesOver(t *testing.T, n *sim.Node, group string) time.Duration {
	t.Helper()
	return testkit.Settles(t, goOver, "node in the other group", func() bool {
		st := n.Cluster().Status()
		return st.ClusterID == group && st.Ready
	})
}

// gaveUp wants a lease that ended because its group yielded.
func gaveUp(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Err(); l.Valid() || !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrYielded) {
		t.Errorf("a lease of the group that was given up: valid %v, %v", l.Valid(), err)
	}
}

// Node 0 joins nobody and founds its group alone; three others join it. It comes back without its
// disk, and founds another group within milliseconds. Both served for good, and a lock was held
// twice.
func TestASeedThatForgotGivesItsSecondGroupUpAndJoinsTheFirst(t *testing.T) {
	t.Parallel()
	seedThatForgot(t, 4)
}

// The first group has all replicas that it shall have, but for that of the seed.
func TestASeedThatForgotJoinsAGroupThatIsFull(t *testing.T) {
	t.Parallel()
	seedThatForgot(t, 7)
}

func seedThatForgot(t *testing.T, nodes int) {
	sim.Run(t, sim.Options{Nodes: nodes, Late: true, Config: func(i int, cfg *holdfast.Config) {
		cfg.MaxTTL, cfg.Replicas = time.Hour, 5
		if cfg.Bootstrap = -1; i == 0 { // the seed that the others join, and that joins nobody
			cfg.Join, cfg.Bootstrap = nil, 1
		} else {
			cfg.Join = cfg.Join[:1]
		}
	}}, func(s *sim.Sim) {
		seed, fleet := s.Node(0), s.Nodes()[1:]
		for _, n := range s.Nodes() {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		group := inGroup(t, s.Nodes()...)
		first := testkit.Get(t, fleet[0].Cluster(), "lock", holdfast.WithTTL(time.Hour))
		seed.Kill()
		seed.Wipe()
		for _, n := range fleet { // nobody can tell it of the others yet
			s.Partition([]int{0}, []int{n.Index()})
		}
		c := seed.Open()
		id := c.ID()
		seed.Ready()
		second := testkit.Get(t, c, "lock", holdfast.WithTTL(time.Hour))
		s.Heal()
		waits := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := c.Acquire(testkit.Until(time.Hour), "lock")
			if err != nil {
				t.Errorf("a call that waited in the group that was given up: %v", err)
			}
			waits <- l
		}()
		t.Logf("it went over after %v", goesOver(t, seed, group))
		gaveUp(t, second)
		// An heir that has its former place already leaves room for one more standby, which it may be.
		if role := c.Status().Role; nodes > 5 && role != holdfast.RoleClient && role != holdfast.RoleStandby {
			t.Errorf("the seed is a %v", role)
		}
		if c.ID() != id || c.Err() != nil {
			t.Errorf("the node was %s and is %s: %v", id, c.ID(), c.Err())
		}
		if _, err := c.TryAcquire(testkit.Until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrHeld) || !first.Valid() {
			t.Errorf("the lock of the fleet: %v, its lease %v", err, first.Err())
		}
		if err := first.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		if l := <-waits; l == nil || l.Token() <= first.Token() || fleet[0].Cluster().Verify(testkit.Until(time.Minute), "lock", l.Token()) != nil {
			t.Errorf("the call that waited has %v", l)
		}
		for _, n := range s.Nodes() { // gossip tells the others within some rounds
			testkit.Settles(t, 20*time.Second, "node that sees one group", func() bool {
				st := n.Cluster().Status()
				return len(st.Foreign) == 0 && len(st.Voters)+len(st.Standbys) <= min(nodes, 5)+1 // and the dead one
			})
		}
		seed.Restart()
		seed.Ready()
		if inGroup(t, s.Nodes()...) != group {
			t.Error("the fleet is in another group")
		}
	})
}

// founders are nodes of which each founds a group alone, where it finds none.
func founders(_ int, cfg *holdfast.Config) { cfg.Bootstrap, cfg.MaxTTL = 1, time.Hour }

func TestOfTwoGroupsOfOneTheYoungerYields(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		sim.Run(t, sim.Options{Nodes: 3, Seed: seed + 1, Late: true, Config: founders}, func(s *sim.Sim) {
			order := []*sim.Node{s.Node(int(seed) % 3), s.Node(int(seed+1) % 3), s.Node(int(seed+2) % 3)}
			s.Partition([]int{0}, []int{1}, []int{2})
			leases := make([]*holdfast.Lease, 3)
			for i, n := range order {
				n.Open()
				n.Ready()
				leases[i] = testkit.Get(t, n.Cluster(), "lock", holdfast.WithTTL(time.Hour))
				time.Sleep(2 * time.Second) // virtual
			}
			group := order[0].Cluster().Status().ClusterID
			s.Heal()
			for _, n := range order[1:] {
				goesOver(t, n, group)
			}
			inGroup(t, order...)
			if !leases[0].Valid() {
				t.Errorf("the lease of the oldest group: %v", leases[0].Err())
			}
			gaveUp(t, leases[1])
			gaveUp(t, leases[2])
			for _, n := range order {
				n.Crash()
				n.Open()
			}
			for _, n := range order {
				n.Ready()
			}
			if inGroup(t, order...) != group {
				t.Error("after a restart of all the fleet is in another group")
			}
		})
	}
}

// Wherever the power fails while a node gives its group up, it comes back as the same node and
// joins.
func TestANodeThatDiesWhileItsGroupYieldsJoinsTheOther(t *testing.T) {
	t.Parallel()
	var met chan string
	told := func(i int, cfg *holdfast.Config) {
		cfg.Bootstrap = 1
		if i == 1 {
			cfg.Events.Foreign = func(group string, _ []string) { met <- group }
		}
	}
	sim.Run(t, sim.Options{Nodes: 2, Late: true, Config: told}, func(s *sim.Sim) {
		met = make(chan string, 100)
		old, young := s.Node(0), s.Node(1)
		s.Partition([]int{0}, []int{1})
		old.Open()
		old.Ready()
		time.Sleep(time.Second) // virtual
		group := old.Cluster().Status().ClusterID
		for i := range 12 {
			young.Open()
			young.Ready()
			own, id := young.Cluster().Status().ClusterID, young.Cluster().ID()
			s.Heal()
			if got := <-met; got != group {
				t.Fatalf("it met %s", got)
			}
			time.Sleep(time.Duration(i*i) * time.Millisecond) // virtual
			s.Partition([]int{0}, []int{1})
			t.Logf("dies %d ms after the sight, in group %.8q", i*i, young.Cluster().Status().ClusterID)
			young.Crash()
			for len(met) > 0 {
				<-met
			}
			s.Heal()
			young.Open()
			young.Ready()
			if st := young.Cluster().Status(); st.ClusterID != group || st.ID != id || own == group {
				t.Fatalf("%d: node %s of group %s is node %s of %s, the other is of %s", i, id, own, st.ID, st.ClusterID, group)
			}
			if err := young.Cluster().Leave(testkit.Until(time.Minute)); err != nil {
				t.Fatal(err)
			}
			young.Close()
			young.Wipe()
			s.Partition([]int{0}, []int{1})
			for len(met) > 0 {
				<-met
			}
		}
	})
}

func TestALoneFounderThatComesBackWhereTheOthersHaveAGroupNeverServesBesideIt(t *testing.T) {
	t.Parallel()
	alone := func(i int, cfg *holdfast.Config) {
		if cfg.MaxTTL = time.Hour; i == 0 {
			cfg.Bootstrap = 1
		}
	}
	sim.Run(t, sim.Options{Nodes: 4, Late: true, Config: alone}, func(s *sim.Sim) {
		founder := s.Node(0)
		founder.Open()
		founder.Ready()
		own := founder.Cluster().Status().ClusterID
		founder.Close()
		for _, n := range s.Nodes()[1:] {
			n.Open()
		}
		for _, n := range s.Nodes()[1:] {
			n.Ready()
		}
		first := testkit.Get(t, s.Node(1).Cluster(), "lock", holdfast.WithTTL(time.Hour))
		s.FaultsEverywhere(transport.Faults{Delay: 60 * time.Millisecond}) // its replica runs before the others are in sight
		c := founder.Open()
		if c.Status().ClusterID != own {
			t.Fatal("the founder does not come back with its group")
		}
		if l, err := c.TryAcquire(testkit.Until(time.Minute), "lock"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("the lock is held twice: %v, %v, beside %v", l, err, first)
		}
		founder.Ready()
		inGroup(t, s.Nodes()...)
	})
}

func TestANodeThatGaveItsGroupUpFoundsNoOther(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 2, Late: true, Config: founders}, func(s *sim.Sim) {
		old, young := s.Node(0), s.Node(1)
		s.Partition([]int{0}, []int{1})
		old.Open()
		old.Ready()
		time.Sleep(2 * time.Second) // virtual
		young.Open()
		young.Ready()
		s.Heal()
		s.FaultsEverywhere(transport.Faults{Delay: 20 * time.Millisecond}) // without a delay the node is in the other group at once
		for end := time.Now().Add(goOver); young.Cluster().Status().ClusterID != ""; {
			if time.Now().After(end) {
				t.Fatal("the younger group does not yield")
			}
			time.Sleep(time.Millisecond) // virtual
		}
		s.Partition([]int{0}, []int{1})
		time.Sleep(2 * time.Minute) // virtual
		if err := young.Cluster().Ready(testkit.Until(time.Minute)); !errors.Is(err, holdfast.ErrNoQuorum) {
			t.Errorf("Ready of a node without a group: %v, %+v", err, young.Cluster().Status())
		}
		s.Heal()
		goesOver(t, young, old.Cluster().Status().ClusterID)
	})
}

// sights is what the hook of one node was told.
type sights struct {
	mu   sync.Mutex
	list []string
}

func (s *sights) foreign(cluster string, nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprint(cluster, " ", len(nodes)))
}

func (s *sights) has(cluster string, nodes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.list, fmt.Sprint(cluster, " ", nodes))
}

func TestTwoGroupsThatOthersHaveJoinedRefuseEachOtherAndAreShown(t *testing.T) {
	t.Parallel()
	var log testlog.Lines
	seen := make([]sights, 4)
	pairs := func(i int, cfg *holdfast.Config) {
		cfg.Bootstrap, cfg.Events.Foreign = 2, seen[i].foreign
	}
	sim.Run(t, sim.Options{Nodes: 4, Late: true, Logger: log.Logger(slog.LevelWarn), Config: pairs}, func(s *sim.Sim) {
		s.Partition([]int{0, 1}, []int{2, 3})
		for _, n := range s.Nodes() {
			n.Open()
		}
		for _, n := range s.Nodes() {
			n.Ready()
		}
		left, right := inGroup(t, s.Nodes()[:2]...), inGroup(t, s.Nodes()[2:]...)
		leases := []*holdfast.Lease{testkit.Get(t, s.Node(0).Cluster(), "lock"), testkit.Get(t, s.Node(2).Cluster(), "lock")}
		s.Heal()
		for i, n := range s.Nodes() {
			other := []string{right, left}[i/2]
			testkit.Settles(t, goOver, "sight of the other group", func() bool {
				return slices.Equal(n.Cluster().Status().Foreign, []string{other}) && seen[i].has(other, 2)
			})
		}
		time.Sleep(goOver) // virtual
		inGroup(t, s.Nodes()[:2]...)
		inGroup(t, s.Nodes()[2:]...)
		if told := log.Count("nodes of another group"); told != 4 {
			t.Errorf("%d nodes complain, want all four", told)
		}
		for i, n := range s.Nodes() { // a group that strays in does not take a fleet down
			n.Ready()
			if l := leases[i/2]; !l.Valid() {
				t.Errorf("a lease ended: %v", l.Err())
			}
		}
		s.Node(2).Close()
		s.Node(3).Close()
		for i, n := range s.Nodes()[:2] {
			testkit.Settles(t, goOver, "end of the sight", func() bool {
				return len(n.Cluster().Status().Foreign) == 0 && seen[i].has(right, 0)
			})
		}
	})
}
