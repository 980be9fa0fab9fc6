package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
	"github.com/holdfast-go/holdfast/transport"
)

// yard is a place under virtual time where nodes without a disk come and go. A service record lists
// those that run, as that of an orchestrator does.
type yard struct {
	t    *testing.T
	net  *transport.Memory
	last int

	mu   sync.Mutex
	runs map[*holdfast.Cluster]string // host
}

// inYard runs f in a bubble, and closes afterwards what still runs.
func inYard(t *testing.T, f func(y *yard)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		y := &yard{t: t, net: transport.NewMemory(1), runs: make(map[*holdfast.Cluster]string)}
		defer func() {
			for c := range y.runs {
				c.Close()
			}
			time.Sleep(time.Minute)
		}()
		f(y)
	})
}

func (y *yard) LookupHost(context.Context, string) ([]string, error) {
	return nil, errors.New("no such host")
}

func (y *yard) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var list []*net.SRV
	for _, host := range y.runs {
		list = append(list, &net.SRV{Target: host, Port: 7643})
	}
	return "", list, nil
}

// openAll starts so many nodes, and waits until all are ready.
func (y *yard) openAll(n int) (fleet []*holdfast.Cluster) {
	y.t.Helper()
	for range n {
		fleet = append(fleet, y.open())
	}
	for _, c := range fleet {
		if err := c.Ready(testkit.Until(time.Minute)); err != nil {
			y.t.Fatal(err)
		}
	}
	return fleet
}

// open starts a node without a disk on a host of its own.
func (y *yard) open() *holdfast.Cluster {
	y.t.Helper()
	y.last++
	host := fmt.Sprint("127.0.2.", y.last)
	ctx := simenv.With(context.Background(), simenv.Env{Network: y.net, Names: y})
	c, err := holdfast.Open(ctx, holdfast.Config{
		Name: host, Bind: host + ":7643", Join: []string{"dnssrv+fleet.test"}, Logger: testkit.Quiet(),
	})
	if err != nil {
		y.t.Fatal(err)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs[c] = host
	return c
}

func (y *yard) remove(c *holdfast.Cluster) (host string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	host = y.runs[c]
	delete(y.runs, c)
	return host
}

// ends are the ways in which a node goes.
func ends(y *yard) map[string]func(*holdfast.Cluster) {
	return map[string]func(*holdfast.Cluster){
		"leaves": func(c *holdfast.Cluster) {
			y.remove(c)
			if err := c.Leave(testkit.Until(time.Minute)); err != nil {
				y.t.Errorf("Leave: %v", err)
			}
		},
		"closes": func(c *holdfast.Cluster) {
			y.remove(c)
			c.Close()
		},
		"is killed": func(c *holdfast.Cluster) {
			y.net.Isolate(y.remove(c))
			c.Close()
		},
	}
}

func TestAFleetWithoutDisksIsReplacedNodeByNodeAndServesAllTheTime(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"leaves", "closes", "is killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			inYard(t, func(y *yard) { replaceAll(y, end) })
		})
	}
}

func replaceAll(y *yard, end string) {
	t := y.t
	fleet := y.openAll(3)
	group := fleet[0].Status().ClusterID
	var last holdfast.Token
	for round := range 7 {
		next := y.open()
		began := time.Now()
		if err := next.Ready(testkit.Until(3 * time.Minute)); err != nil {
			t.Fatalf("round %d: the new node is not ready: %v, %+v", round, err, next.Status())
		}
		ready := time.Since(began)
		old := fleet[0]
		fleet = append(fleet[1:], next)
		ends(y)[end](old)
		for _, c := range fleet {
			began := time.Now()
			l, err := c.Acquire(testkit.Until(time.Minute), "lock", holdfast.WithTTL(5*time.Second))
			if err != nil {
				t.Fatalf("round %d: the fleet does not serve any more: %v, %+v", round, err, c.Status())
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("round %d: a lock took %v", round, took)
			}
			if l.Token() <= last {
				t.Errorf("round %d: token %d after %d", round, l.Token(), last)
			}
			last = l.Token()
			if err := l.Release(testkit.Until(time.Minute)); err != nil {
				t.Error(err)
			}
			if st := c.Status(); st.ClusterID != group {
				t.Fatalf("round %d: a node is in group %s, the first were in %s", round, st.ClusterID, group)
			}
		}
		t.Logf("round %d: ready after %v", round, ready)
	}
}

func TestAFailedVoterIsReplacedAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	sim.Run(t, sim.Options{Nodes: 4}, func(s *sim.Sim) {
		spare := testkit.Follower(s, holdfast.RoleStandby)
		dead := testkit.Follower(s, holdfast.RoleVoter)
		id := dead.Cluster().ID()
		rest := testkit.Others(s, spare, dead)
		s.RaftLeader()
		dead.Crash()
		began := time.Now()
		votes := func(c *holdfast.Cluster, id string) bool { return slices.Contains(testkit.IDs(c.Status().Voters), id) }
		testkit.Settles(t, time.Minute, "replacement", func() bool { return votes(rest[0].Cluster(), spare.Cluster().ID()) })
		if took := time.Since(began); took < 30*time.Second || took > 45*time.Second {
			t.Errorf("replaced after %v", took)
		}
		testkit.Settles(t, time.Second, "removal", func() bool { return !votes(rest[0].Cluster(), id) })
		// The three that vote now can spare one: the dead one counts no more.
		rest[0].Crash()
		testkit.Get(t, rest[1].Cluster(), "lock")
		rest[0].Open()
		rest[0].Ready()
		// What failed comes back, hears that its replica is out, and has another one then.
		c := dead.Open()
		testkit.Settles(t, time.Minute, "return", func() bool { return slices.Contains(testkit.IDs(rest[0].Cluster().Status().Standbys), id) })
		dead.Ready()
		if c.ID() != id {
			t.Errorf("it came back as %s, and was %s", c.ID(), id)
		}
		testkit.Get(t, c, "own")
	})
}

// Found by sim/cmd/chaos: each new raft leader counted the half minute from its own beginning, so
// that where raft leaders changed more often a failed voter was never replaced.
func TestAFailedVoterIsReplacedAlsoWhereRaftLeadersChange(t *testing.T) {
	t.Parallel()
	five := func(_ int, cfg *holdfast.Config) { cfg.Voters = 5 }
	sim.Run(t, sim.Options{Nodes: 6, Config: five}, func(s *sim.Sim) {
		spare := testkit.Follower(s, holdfast.RoleStandby)
		dead := testkit.Follower(s, holdfast.RoleVoter)
		rest := testkit.Others(s, spare, dead)
		dead.Crash()
		began := time.Now()
		replaced := func() bool {
			return slices.Contains(testkit.IDs(spare.Cluster().Status().Voters), spare.Cluster().ID())
		}
		changes := 0
		for !replaced() && time.Since(began) < 2*time.Minute {
			leader := s.RaftLeader()
			leader.Pause()
			time.Sleep(time.Second)
			leader.Resume()
			if s.RaftLeader() != leader {
				changes++
			}
			time.Sleep(5 * time.Second)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("replaced after %v and %d raft leaders", took, changes)
		}
		testkit.Get(t, rest[0].Cluster(), "lock")
		if changes < 3 {
			t.Errorf("the raft leader changed %d times only", changes)
		}
		t.Logf("replaced after %v and %d changes of the raft leader", time.Since(began), changes)
	})
}
