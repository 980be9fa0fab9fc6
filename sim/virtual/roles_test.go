package virtual_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// five lets five nodes hold a replica, and has one that is silent replaced soon.
func five(_ int, cfg *holdfast.Config) {
	cfg.Replicas, cfg.ReplaceAfter, cfg.MaxTTL = 5, 2*time.Second, holdfast.TTLMax
}

// roles are the open nodes by what they do in the group, as each says of itself.
func roles(s *sim.Sim) map[holdfast.Role][]*sim.Node {
	of := make(map[holdfast.Role][]*sim.Node)
	for _, n := range s.Nodes() {
		if c := n.Cluster(); c != nil {
			role := c.Status().Role
			of[role] = append(of[role], n)
		}
	}
	return of
}

// settles waits until so many nodes hold a replica, and so many are clients that are ready.
func settles(t *testing.T, s *sim.Sim, voters, standbys, clients int) {
	t.Helper()
	what := fmt.Sprintf("%d voters, %d standbys and %d clients", voters, standbys, clients)
	testkit.Settles(t, 2*time.Minute, what, func() bool {
		of := roles(s)
		idle := slices.ContainsFunc(of[holdfast.RoleClient], func(n *sim.Node) bool { return !n.Cluster().Status().Ready })
		return !idle && len(of[holdfast.RoleVoter]) == voters && len(of[holdfast.RoleStandby]) == standbys && len(of[holdfast.RoleClient]) == clients
	})
}

// belongings are what a node holds, waits for and watches while it changes its role.
type belongings struct {
	lease   *holdfast.Lease
	waited  chan error
	watched chan holdfast.Event
}

// belong gives a node a lease of two seconds, a call that waits for a lock, and a watch of that.
func belong(t *testing.T, n *sim.Node, i int, wanted string) belongings {
	t.Helper()
	c := n.Cluster()
	b := belongings{
		lease: testkit.Get(t, c, fmt.Sprint("own", i), holdfast.WithTTL(2*time.Second)), waited: make(chan error, 1),
		watched: make(chan holdfast.Event, 4096),
	}
	ctx := n.Context()
	go func() {
		for e, err := range c.Watch(ctx, wanted) {
			if err != nil {
				close(b.watched)
				return
			}
			b.watched <- e
		}
	}()
	before := c.Status().Waiting
	go func() {
		l, err := c.Acquire(ctx, wanted, holdfast.WithTTL(2*time.Second))
		if err == nil {
			err = l.Release(testkit.Until(time.Minute))
		}
		b.waited <- err
	}()
	testkit.Settles(t, 10*time.Second, "queue", func() bool { return c.Status().Waiting == before+1 })
	return b
}

// kept checks that nothing of it was lost.
func (b belongings) kept(t *testing.T, granted bool) {
	t.Helper()
	if !b.lease.Valid() {
		t.Errorf("%s: %v", b.lease.Name(), b.lease.Err())
	}
	if granted {
		if err := <-b.waited; err != nil {
			t.Error(err)
		}
		for {
			e, open := <-b.watched
			if !open {
				t.Error("the watch has ended")
				return
			}
			if e.Kind == holdfast.EventReleased || e.Kind == holdfast.EventResync {
				return
			}
		}
	}
}

// A node beyond the replicas of a group is a client. It becomes a standby when a replica is gone, and
// votes when a voter is, while its lease of two seconds, its waiting call and its watch live on.
func TestAClientTakesThePlaceOfADeadReplicaAndLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		sim.Run(t, sim.Options{Nodes: 8, Seed: seed + 1, Config: five}, func(s *sim.Sim) {
			settles(t, s, 3, 2, 3)
			first := roles(s)
			held := testkit.Get(t, s.Node(0).Cluster(), "wanted", holdfast.WithTTL(time.Hour))
			var all []belongings
			for i, n := range first[holdfast.RoleClient] {
				all = append(all, belong(t, n, i, "wanted"))
			}
			gone := 0
			for _, n := range slices.Concat(first[holdfast.RoleStandby], first[holdfast.RoleVoter]) {
				if n == s.Node(0) || gone == 3 {
					continue
				}
				n.Kill()
				gone++
				settles(t, s, 3, 2, 3-gone)
				for _, b := range all {
					b.kept(t, false)
				}
			}
			if err := held.Release(testkit.Until(time.Minute)); err != nil {
				t.Error(err)
			}
			for _, b := range all {
				b.kept(t, true)
			}
		})
	}
}

// A standby that was away while a client took its place is one too many when it is back: its node, or
// another, goes on as a client with all that it has.
func TestAStandbyTooManyBecomesAClientAndLosesNothing(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 6, Config: five}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 1)
		away := testkit.Follower(s, holdfast.RoleStandby)
		away.Isolate()
		rest := testkit.Others(s, away)
		testkit.Settles(t, time.Minute, "a client in its place", func() bool { return len(rest[0].Cluster().Status().Standbys) == 3 })
		held := testkit.Get(t, rest[0].Cluster(), "wanted", holdfast.WithTTL(time.Hour))
		var all []belongings
		for i, n := range rest {
			all = append(all, belong(t, n, i, "wanted"))
		}
		away.Rejoin()
		settles(t, s, 3, 2, 1)
		if err := held.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		for _, b := range all {
			b.kept(t, true)
		}
	})
}

func pair(t *testing.T, n *sim.Node, name string) {
	t.Helper()
	if err := testkit.Get(t, n.Cluster(), name).Release(testkit.Until(time.Minute)); err != nil {
		t.Error(err)
	}
}

// A fleet grows from one node to twelve, and shrinks to one again.
func TestAFleetGrowsAndShrinksAndHasItsReplicas(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 12, Late: true, Config: func(i int, cfg *holdfast.Config) {
		cfg.Bootstrap, cfg.Replicas, cfg.ReplaceAfter = 1, 5, 2*time.Second
		if i > 0 {
			cfg.Bootstrap = -1
		}
	}}, func(s *sim.Sim) {
		for i, n := range s.Nodes() {
			n.Open()
			n.Ready()
			pair(t, n, fmt.Sprint("lock", i))
		}
		settles(t, s, 3, 2, 7)
		for i, n := range s.Nodes() {
			if i == 11 {
				break
			}
			if err := n.Cluster().Leave(testkit.Until(time.Minute)); err != nil {
				t.Errorf("node %d leaves: %v", i, err)
			}
			n.Close()
			pair(t, s.Node(11), "lock")
			switch left := 11 - i; {
			case left >= 5:
				settles(t, s, 3, 2, left-5)
			case left >= 3:
				settles(t, s, 3, left-3, 0)
			}
		}
	})
}

// The power fails under a fleet with clients: all come back as what they were, and form no second group.
func TestAFleetWithClientsComesBackAfterThePowerFailed(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 9, Config: five}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 4)
		clients := roles(s)[holdfast.RoleClient]
		group := clients[0].Cluster().Status().ClusterID
		l := testkit.Get(t, clients[0].Cluster(), "lock", holdfast.WithValue([]byte("kept")))
		token := l.Token()
		for _, n := range s.Nodes() {
			n.Crash()
		}
		for _, n := range clients { // the fresh ones would be enough for a group
			n.Open()
		}
		time.Sleep(time.Minute)
		for _, n := range s.Nodes() {
			if n.Cluster() == nil {
				n.Open()
			}
		}
		settles(t, s, 3, 2, 4)
		for _, n := range s.Nodes() {
			if st := n.Cluster().Status(); st.ClusterID != group {
				t.Errorf("a node is of group %s, not %s", st.ClusterID, group)
			}
		}
		if l := testkit.Get(t, clients[1].Cluster(), "lock"); l.Token() <= token || string(l.Value()) != "kept" {
			t.Errorf("token %d after %d, value %q", l.Token(), token, l.Value())
		}
	})
}

// A group that waits for ten nodes and has five replicas serves when the other five have said Hello as
// clients.
func TestAGroupThatWaitsForMoreNodesThanItHasReplicasServesWhenAllHaveMet(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 10, Late: true, Config: func(_ int, cfg *holdfast.Config) { cfg.Bootstrap, cfg.Replicas = 10, 5 }}, func(s *sim.Sim) {
		for _, n := range s.Nodes()[:9] {
			n.Open()
		}
		time.Sleep(time.Minute)
		if l, err := s.Node(0).Cluster().TryAcquire(testkit.Until(time.Second), "lock"); err == nil {
			t.Errorf("nine of ten have met, and %v is granted", l)
		}
		s.Node(9).Open()
		settles(t, s, 3, 2, 5)
		for i, n := range s.Nodes() {
			n.Ready()
			pair(t, n, fmt.Sprint("lock", i))
		}
	})
}

// A client asks for TTLs as long as its own MaxTTL: the raft leader raises the bound for it. When it
// restarts on its directory it is the same node, and what it held is free at once. (The bounds are not
// whole milliseconds: the raft leader raised the bound of the group for ever, did nothing else, and the
// client waited for it.)
func TestAClientHasItsMaxTTLAndItsDirectory(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 6, Late: true, Config: func(i int, cfg *holdfast.Config) {
		cfg.MaxTTL, cfg.Replicas = time.Minute+time.Microsecond, 5
		if i == 5 {
			cfg.MaxTTL = time.Hour + time.Microsecond
		}
	}}, func(s *sim.Sim) {
		for _, n := range s.Nodes()[:5] {
			n.Open()
		}
		for _, n := range s.Nodes()[:5] {
			n.Ready()
		}
		client := s.Node(5)
		client.Open()
		client.Ready()
		settles(t, s, 3, 2, 1)
		id := client.Cluster().ID()
		l := testkit.Get(t, client.Cluster(), "lock", holdfast.WithTTL(time.Hour))
		client.Kill()
		client.Open()
		client.Ready()
		if now := client.Cluster().ID(); now != id || client.Cluster().Status().Role != holdfast.RoleClient {
			t.Errorf("node %s was %s, and is a %v", now, id, client.Cluster().Status().Role)
		}
		if next := testkit.Get(t, s.Node(0).Cluster(), "lock"); next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

// The replica of a client refuses more than 256 calls of a connection at once. The client's callers
// wait for their turn instead of being refused. Some were refused on a busy machine: the replica
// counted a call as under way until after the client had its reply, and the next call came earlier.
func TestAClientWithManyCallersRefusesNone(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 6, Config: five}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 1)
		c := roles(s)[holdfast.RoleClient][0].Cluster()
		ended := make(chan error)
		const callers = 600
		for i := range callers {
			go func() {
				var failed error
				for range 10 { // the admission opens as it learns
					l, err := c.Acquire(testkit.Until(time.Minute), fmt.Sprint("lock", i))
					if err == nil {
						err = errors.Join(c.Verify(testkit.Until(time.Minute), l.Name(), l.Token()), l.Release(testkit.Until(time.Minute)))
					}
					failed = errors.Join(failed, err)
				}
				ended <- failed
			}()
		}
		for range callers {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// The directory of a client is copied and opened on another machine: one process of a node lives, the
// later one. The random test found that the earlier one stayed, with leases that ended as if they
// had expired and calls that were refused for good.
func TestOfTwoProcessesOfAClientTheLaterOneLives(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 7, Late: true, Config: five}, func(s *sim.Sim) {
		for _, n := range s.Nodes()[:6] {
			n.Open()
		}
		settles(t, s, 3, 2, 1)
		client, host := roles(s)[holdfast.RoleClient][0], s.Node(6)
		earlier := client.Cluster()
		l := testkit.Get(t, earlier, "lock", holdfast.WithTTL(time.Minute))
		if err := host.CopyDisk(client); err != nil {
			t.Fatal(err)
		}
		host.Open()
		host.Ready()
		if later := host.Cluster().ID(); later != earlier.ID() {
			t.Fatalf("the copy is node %s, want %s", later, earlier.ID())
		}
		select {
		case <-earlier.Done():
		case <-time.After(time.Minute):
			t.Fatal("the earlier process serves on")
		}
		if err := earlier.Err(); !errors.Is(err, holdfast.ErrIncompatible) {
			t.Errorf("the earlier process ended with %v", err)
		}
		<-l.Context().Done()
		if err := l.Err(); !errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrExpired) {
			t.Errorf("its lease ended with %v", err)
		}
		pair(t, host, "another")
	})
}

// Two of three voters die. Nothing told a client's user so: its calls waited, and its leases ended. When that was
// told, Status().Ready stayed true, and the probe of a load balancer passed.
func TestClientsTellThatTheGroupHasLostItsMajority(t *testing.T) {
	t.Parallel()
	type word struct {
		ok      bool
		missing int
	}
	words := make([]chan word, 8)
	sim.Run(t, sim.Options{Nodes: len(words), Config: func(i int, cfg *holdfast.Config) {
		five(i, cfg)
		cfg.ClientOnly = i == 7
		said := make(chan word, 8)
		words[i] = said
		cfg.Events.Quorum = func(ok bool, missing []string) { said <- word{ok, len(missing)} }
	}}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 3)
		of := roles(s)
		dead := of[holdfast.RoleVoter][:2]
		for _, n := range dead {
			n.Kill()
		}
		next := func(n *sim.Node) word {
			select {
			case w := <-words[n.Index()]:
				return w
			case <-time.After(time.Minute):
				t.Errorf("node %d says nothing", n.Index())
				return word{}
			}
		}
		unready(t, of[holdfast.RoleClient])
		for _, n := range of[holdfast.RoleClient] {
			want := word{false, 2}
			if n.Index() == 7 {
				want.missing = 0 // without gossip
			}
			if w := next(n); w != want {
				t.Errorf("node %d says %+v, want %+v", n.Index(), w, want)
			}
		}
		for _, n := range dead {
			n.Open()
		}
		for _, n := range of[holdfast.RoleClient] {
			if w := next(n); !w.ok {
				t.Errorf("node %d says %+v though it is served", n.Index(), w)
			}
			if st := n.Cluster().Status(); !st.Ready {
				t.Errorf("node %d is served, and is not ready: it waits for %q", n.Index(), st.Waits)
			}
		}
		time.Sleep(time.Minute)
		for _, n := range of[holdfast.RoleClient] {
			if more := len(words[n.Index()]); more > 0 {
				t.Errorf("node %d says %d words more", n.Index(), more)
			}
		}
	})
}

// unready fails for a client that is ready though the majority is lost, from some seconds later on, or does not say why.
func unready(t *testing.T, clients []*sim.Node) {
	t.Helper()
	time.Sleep(4 * time.Second)
	for range 200 {
		time.Sleep(101 * time.Millisecond)
		for _, n := range clients {
			if st := n.Cluster().Status(); st.Ready || st.Waits == "" {
				t.Fatalf("node %d is ready: %v, and waits for %q", n.Index(), st.Ready, st.Waits)
			}
		}
	}
}

// Gossip loses sight of a client, and its connection to a replica goes on. It keeps its place in a queue:
// before, it was at the end again every two seconds.
func TestAClientThatGossipDoesNotSeeKeepsItsPlaceInAQueue(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 7, Config: five}, func(s *sim.Sim) {
		settles(t, s, 3, 2, 2)
		clients, leader := roles(s)[holdfast.RoleClient], s.RaftLeader().Cluster()
		held := testkit.Get(t, leader, "wanted", holdfast.WithTTL(time.Hour))
		granted := make(chan int, len(clients))
		for i, n := range clients {
			c, ctx := n.Cluster(), n.Context()
			go func() {
				l, err := c.Acquire(ctx, "wanted", holdfast.WithTTL(2*time.Second))
				if err != nil {
					close(granted)
					return
				}
				granted <- i
				_ = l.Release(ctx) // or it ends with its TTL
			}()
			testkit.Settles(t, 10*time.Second, "queue", func() bool { return c.Status().Waiting == 1 })
		}
		clients[0].CutGossip()
		testkit.Settles(t, time.Minute, "gossip without it", func() bool {
			return !slices.ContainsFunc(leader.Members(), func(m holdfast.Member) bool {
				return m.ID == clients[0].Cluster().ID() && (m.State == holdfast.StateAlive || m.State == holdfast.StateSuspect)
			})
		})
		time.Sleep(10 * time.Second)
		if err := held.Release(testkit.Until(time.Minute)); err != nil {
			t.Error(err)
		}
		for want := range clients {
			if got, open := <-granted; got != want || !open {
				t.Errorf("granted to %d (%v), want %d", got, open, want)
			}
		}
	})
}
