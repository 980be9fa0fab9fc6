package virtual_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sim"
)

// actsVar has every act at every second of its dangerous time, instead of at some: with so many of
// the four fleets. Raft then goes at a fifth of its pace, which costs a fifth.
const actsVar = "HOLDFAST_ACTS"

// slow is how much later a raft leader is missed then.
const slow = 3 * time.Second

// act is what an operator does to a fleet, or a machine, at a second that may be the wrong one.
type act struct {
	name    string
	spares  int           // nodes besides the voters
	clients int           // nodes besides those: Config.Replicas has no room for them
	least   int           // voters that it takes
	some    []int         // of them
	all     [2]int        // the dangerous time, from and to
	unit    time.Duration // of them; 0: a second
	longest time.Duration // that the lock may not be had by those who stay
	do      func(sc *scene, at time.Duration)
}

// scene is one act on one fleet.
type scene struct {
	t      *testing.T
	s      *sim.Sim
	voters int
	slow   time.Duration // how much later a raft leader is missed than at the usual pace

	mu     sync.Mutex
	served time.Time // when a node that stays last had the lock
	gap    time.Duration
	kept   []*holdfast.Lease // on nodes that stay
	end    []func()
}

// Ordinary acts of operators, and ordinary deaths: none may lose the group as long as a majority of
// its voters lives, nor a lease on a node that stays, nor let two hold the lock.
func TestOrdinaryActsAtEverySecondLoseNothing(t *testing.T) {
	t.Parallel()
	for _, a := range acts() {
		for _, c := range a.cases() {
			t.Run(fmt.Sprintf("%s/voters=%d,diskless=%v,at=%v", a.name, c.voters, c.diskless, c.at), func(t *testing.T) {
				t.Parallel()
				a.play(t, c)
			})
		}
	}
}

// fleetAt is what an act is done to, and when.
type fleetAt struct {
	voters   int
	diskless bool
	at       time.Duration
	timing   holdfast.Timing
}

// cases are all fleets at every second, or each of some seconds with another fleet.
func (a act) cases() (list []fleetAt) {
	fleets := []fleetAt{{voters: 3}, {voters: 5, diskless: true}, {voters: 5}, {voters: 3, diskless: true}}
	fleets = slices.DeleteFunc(fleets, func(c fleetAt) bool { return c.voters < a.least })
	add := func(c fleetAt, k int) {
		c.at = time.Duration(k) * cmp.Or(a.unit, time.Second)
		list = append(list, c)
	}
	sweep, _ := strconv.Atoi(os.Getenv(actsVar))
	if sweep == 0 {
		for i, k := range a.some {
			add(fleets[i%len(fleets)], k)
		}
		if testing.Short() {
			return list[:1]
		}
		return list
	}
	for k := a.all[0]; k <= a.all[1]; k++ {
		for i := range min(sweep, len(fleets)) {
			c := fleets[(k+i)%len(fleets)]
			c.timing.Tick = 50 * time.Millisecond
			add(c, k)
		}
	}
	return list
}

func (a act) play(t *testing.T, c fleetAt) {
	t.Helper()
	sim.Run(t, sim.Options{
		Nodes: c.voters + a.spares + a.clients, Diskless: c.diskless,
		Config: func(_ int, cfg *holdfast.Config) {
			cfg.Voters, cfg.Bootstrap, cfg.Timing = c.voters, c.voters, c.timing
			if a.clients > 0 {
				cfg.Replicas = c.voters + a.spares
			}
		},
	}, func(s *sim.Sim) {
		sc := &scene{t: t, s: s, voters: c.voters}
		if c.timing.Tick > 0 {
			sc.slow = slow
		}
		group := s.Node(0).Cluster().Status().ClusterID
		defer sc.over()
		a.do(sc, c.at)
		sc.over()
		if sc.gap > a.longest+sc.slow {
			t.Errorf("those who stay were not served for %v", sc.gap)
		}
		for _, n := range s.Nodes() {
			if c := n.Cluster(); c != nil && group != c.Status().ClusterID {
				t.Errorf("node %d is in group %s, which was %s", n.Index(), c.Status().ClusterID, group)
			}
		}
	})
}

// stay has nodes hold a lease each, and take the lock in turn, until the act is over.
func (sc *scene) stay(nodes ...*sim.Node) {
	sc.t.Helper()
	for _, n := range nodes {
		sc.kept = append(sc.kept, testkit.Get(sc.t, n.Cluster(), fmt.Sprint("kept by ", n.Index())))
		ctx, cancel := context.WithCancel(n.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			sc.work(ctx, n)
		}()
		sc.end = append(sc.end, func() {
			cancel()
			<-ended
		})
	}
}

func (sc *scene) work(ctx context.Context, n *sim.Node) {
	c := n.Cluster()
	for ctx.Err() == nil {
		l, err := c.Acquire(ctx, "door", holdfast.WithTTL(2*time.Second))
		if err != nil {
			if ctx.Err() == nil {
				sc.t.Errorf("node %d stays, and was told %v", n.Index(), err)
			}
			return
		}
		sc.serve()
		leave := n.Section("door").Enter(ctx, l.Token())
		select {
		case <-l.Done(): // its session was not renewed while there was no raft leader
		case <-time.After(50 * time.Millisecond):
		}
		leave()
		_ = l.Release(ctx)
		time.Sleep(200 * time.Millisecond)
	}
}

func (sc *scene) serve() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := time.Now()
	if !sc.served.IsZero() {
		sc.gap = max(sc.gap, now.Sub(sc.served))
	}
	sc.served = now
}

// over ends the work of those who stay: they must have what they held.
func (sc *scene) over() {
	for _, l := range sc.kept {
		if !l.Valid() {
			sc.t.Errorf("a node that stays lost %q: %v", l.Name(), l.Err())
		}
	}
	if len(sc.kept) > 0 {
		sc.mu.Lock()
		sc.gap = max(sc.gap, time.Since(sc.served))
		sc.mu.Unlock()
	}
	for _, end := range sc.end {
		end()
	}
	sc.kept, sc.end = nil, nil
}

// pick returns so many voters, the raft leader among them or not, and the other nodes.
func (sc *scene) pick(count int, leader bool) (some, rest []*sim.Node) {
	first := sc.s.RaftLeader()
	for _, n := range sc.s.Nodes() {
		voter := n.Cluster().Status().Role == holdfast.RoleVoter
		if voter && n != first && len(some) < count {
			some = append(some, n)
		} else {
			rest = append(rest, n)
		}
	}
	if leader {
		rest[slices.Index(rest, first)], some[0] = some[0], first
	}
	return some, rest
}

// die ends machines for good, and puts others in their place, which are not opened.
func (sc *scene) die(nodes []*sim.Node) {
	sc.s.AtOnce(nodes, (*sim.Node).Kill)
	for _, n := range nodes {
		n.Replace()
	}
}

// leave has nodes leave at one moment, for which there is a limit.
func (sc *scene) leave(limit time.Duration, nodes ...*sim.Node) {
	sc.t.Helper()
	began := time.Now()
	sc.s.AtOnce(nodes, func(n *sim.Node) {
		if err := n.Leave(testkit.Until(time.Minute)); err != nil {
			sc.t.Errorf("Leave of node %d: %v after %v", n.Index(), err, time.Since(began))
		}
	})
	if took := time.Since(began); took > limit+sc.slow {
		sc.t.Errorf("Leave of %d nodes took %v", len(nodes), took)
	}
}

// whole wants as many voters as are wanted, all of which run.
func (sc *scene) whole(n *sim.Node) {
	sc.t.Helper()
	testkit.Settles(sc.t, time.Minute, "whole fleet", func() bool {
		voters := testkit.IDs(n.Cluster().Status().Voters)
		for _, o := range sc.s.Nodes() {
			if c := o.Cluster(); c != nil {
				voters = slices.DeleteFunc(voters, func(id string) bool { return id == c.ID() })
			}
		}
		return len(voters) == 0 && len(n.Cluster().Status().Voters) == sc.voters
	})
}
