package expiry

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// group is a replica that votes. It takes a while to answer, and loses what it is told to lose.
type group struct {
	*replica
	mu     sync.Mutex
	votes  bool
	takes  time.Duration
	loses  int
	asked  []time.Duration // when something was proposed
	under  int
	most   int // at a time
	began  time.Time
	keeper *Timekeeper
}

func (g *group) clock() lease.Instant { return noon.Add(time.Since(g.began)) }

func (g *group) IsRaftLeader() bool { return true }

func (g *group) Read(look func(*fsm.Machine)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	look(g.Machine)
}

// Propose carries out a command as a replica does: what it applies it gives to the table, without
// the state's lock.
func (g *group) Propose(_ context.Context, cmd []byte) (out fsm.Outcome, err error) {
	g.mu.Lock()
	g.asked = append(g.asked, time.Since(g.began))
	g.under++
	g.most = max(g.most, g.under)
	g.mu.Unlock()
	time.Sleep(g.takes)
	g.mu.Lock()
	g.under--
	lost := g.loses > 0
	g.loses--
	var events []fsm.Event
	if !lost {
		out, events = g.Machine.Apply(g.Applied()+1, fsm.Process{}, cmd)
		events = slices.Clone(events) // the next Apply uses them again
	}
	g.mu.Unlock()
	for i := range events {
		if g.Note(&events[i], g.clock()) {
			g.keeper.Wake()
		}
	}
	return out, nil
}

// run lets a timekeeper run for a while, and then ends it and all that it has spawned.
func (g *group) run(t *testing.T, d time.Duration) {
	t.Helper()
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	spawn := func(f func(context.Context)) bool {
		running.Go(func() { f(ctx) })
		return true
	}
	voter := func() Group {
		if g.mu.Lock(); !g.votes {
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		return g
	}
	g.began = time.Now()
	g.keeper = NewTimekeeper(g.Table, g.clock, voter, spawn)
	spawn(g.keeper.Run)
	time.Sleep(d)
	stop()
	running.Wait()
}

// A holder that died would keep its lock for ever if an end that was lost on the way were not
// proposed again.
func TestAnEndThatIsLostOnTheWayIsProposedAgainUntilItHasHappened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{replica: newReplica(fsm.Limits{}), votes: true, takes: 10 * time.Millisecond, loses: 3}
		g.acquire("x", 1)
		g.run(t, time.Hour)
		if n := g.Info().Sessions; n != 0 {
			t.Fatalf("%d sessions are left", n)
		}
		if len(g.asked) != 4 || g.asked[0] != time.Minute || g.asked[3] != time.Minute+3*retry {
			t.Errorf("the end was proposed after %v", g.asked)
		}
	})
}

// What a replica that does not vote proposes could end what the voters know to be renewed, if its
// log is far behind.
func TestAReplicaThatDoesNotVoteProposesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{replica: newReplica(fsm.Limits{})}
		g.acquire("x", 1)
		g.run(t, time.Hour)
		if len(g.asked) != 0 {
			t.Errorf("it proposed something after %v", g.asked)
		}
	})
}

// The end of a great node must not take the place of the calls of the others (X4).
func TestManyEndsAtOnceAreProposedAFewAtATimeAndAllHappen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions = 10 * FlightsMax
		g := &group{replica: newReplica(fsm.Limits{}), votes: true, takes: 10 * time.Millisecond}
		for i := range uint64(sessions) {
			g.apply(fsm.Acquire{
				Session: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: i + 1}, TTL: time.Minute, Request: 1, Name: string(rune(i + 100)),
			})
		}
		g.run(t, 2*time.Minute)
		if left := g.Info().Sessions; left != 0 || g.most != FlightsMax {
			t.Errorf("%d sessions are left; %d proposals were under way at a time, %d allowed", left, g.most, FlightsMax)
		}
	})
}
