package holdfast

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// elapsesMax is how many commands the elapser has under way at a time.
	elapsesMax = 64
	// sweepPause is the pause between two sweeps: forgetting is spread.
	sweepPause = 50 * time.Millisecond
)

// elapser times what hangs on no session, on this node's clock, and tells the group when its time is over: the
// rest of a place that stays taken, the periods of Once keys. As with sessions, the raft leader proposes at once
// and the other voters a little later; every replica has been timing all along, and a restarted one is only late.
type elapser struct {
	c       *Cluster
	wakeup  chan struct{}
	flights chan struct{}
	turns   map[time.Duration]lastTurn // of run alone

	mu    sync.Mutex
	rests map[fsm.Grant]*resting
	queue restQueue
	keys  bool // there may be Once keys
}

// lastTurn is the last turn of a class of Once keys and when this node saw it.
type lastTurn struct {
	index uint64
	at    lease.Instant
}

// resting is one place and when its time is over.
type resting struct {
	grant fsm.Grant
	due   lease.Instant
	place int // in the queue
}

func newElapser(c *Cluster) *elapser {
	return &elapser{
		c:       c,
		wakeup:  make(chan struct{}, 1),
		flights: make(chan struct{}, elapsesMax),
		turns:   make(map[time.Duration]lastTurn),
		rests:   make(map[fsm.Grant]*resting),
	}
}

// note takes an event from the local apply.
func (x *elapser) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventResting:
		now := x.c.clock.Now()
		x.mu.Lock()
		x.add(fsm.Grant{Name: e.Name, Token: e.Token}, now.Add(e.TTL))
		x.mu.Unlock()
		x.wake()
	case fsm.EventRested:
		x.mu.Lock()
		if r := x.rests[fsm.Grant{Name: e.Name, Token: e.Token}]; r != nil {
			heap.Remove(&x.queue, r.place)
			delete(x.rests, r.grant)
		}
		x.mu.Unlock()
	case fsm.EventReleased:
		if e.Reason != fsm.ReasonFinished {
			return
		}
		x.mu.Lock()
		first := !x.keys
		x.keys = true
		x.mu.Unlock()
		if first {
			x.wake()
		}
	}
}

// add begins to time a rest. The caller holds x.mu.
func (x *elapser) add(g fsm.Grant, due lease.Instant) {
	r := &resting{grant: g, due: due}
	x.rests[g] = r
	heap.Push(&x.queue, r)
}

// restore begins anew with all that there is: this node does not know how old it is.
func (x *elapser) restore(m *fsm.Machine) {
	now := x.c.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rests, x.queue = make(map[fsm.Grant]*resting), nil
	for r := range m.Rests() {
		x.add(fsm.Grant{Name: r.Name, Token: r.Token}, now.Add(r.For))
	}
	x.keys = m.Info().Keys > 0
	x.wake()
}

func (x *elapser) wake() {
	select {
	case x.wakeup <- struct{}{}:
	default:
	}
}

// run proposes what is due until ctx ends.
func (x *elapser) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-x.wakeup:
		}
		timer.Reset(x.step(ctx))
	}
}

func (x *elapser) step(ctx context.Context) time.Duration {
	group, _ := x.c.proposer.current()
	if group == nil || !x.c.votes(group) {
		return expirePause
	}
	lag := x.c.cfg.Timing.Election
	leads := group.IsRaftLeader()
	if leads {
		lag = 0
	}
	now := x.c.clock.Now()
	next := x.endRests(ctx, group, now, lag)
	x.mu.Lock()
	keys := x.keys
	x.mu.Unlock()
	if keys {
		next = min(next, x.turnKeys(ctx, group, now, lag, leads))
	}
	return min(expirePause, max(next, time.Millisecond))
}

// endRests proposes the end of the rests that are due, and returns how long until the next is.
func (x *elapser) endRests(ctx context.Context, group *consensus.Group, now lease.Instant, lag time.Duration) time.Duration {
	x.mu.Lock()
	var due []fsm.Grant
	next := expirePause
	for len(x.queue) > 0 && len(due) < elapsesMax {
		first := x.queue[0]
		if left := time.Duration(first.due - now); left > -lag {
			next = left + lag
			break
		}
		due = append(due, first.grant)
		first.due = now.Add(expireRetry)
		heap.Fix(&x.queue, 0)
		next = 0
	}
	x.mu.Unlock()
	for _, g := range due {
		x.propose(ctx, group, fsm.EndRest(g))
	}
	return next
}

// turnKeys proposes the turns of the Once keys that are due and, on the raft leader, sweeps keys away. It
// returns how long until there is more to do.
func (x *elapser) turnKeys(ctx context.Context, group *consensus.Group, now lease.Instant, lag time.Duration, leads bool) time.Duration {
	var classes []fsm.Class
	group.Read(func(m *fsm.Machine) { classes = m.Classes() })
	if len(classes) == 0 {
		x.mu.Lock()
		x.keys = false
		x.mu.Unlock()
		clear(x.turns)
		x.recheck(group)
		return expirePause
	}
	next := expirePause
	for _, k := range classes {
		last := x.turns[k.Keep]
		if last.index != k.Last {
			last = lastTurn{k.Last, now}
		}
		left := fsm.OncePeriod(k.Keep) + lag - time.Duration(now-last.at)
		if left <= 0 {
			x.propose(ctx, group, fsm.Turn{Keep: k.Keep, Last: k.Last})
			last.at, left = last.at.Add(expireRetry), expireRetry
		}
		x.turns[k.Keep] = last
		next = min(next, left)
		if k.Over != 0 && leads {
			x.propose(ctx, group, fsm.Sweep{Keep: k.Keep, Upto: k.Over})
			next = min(next, sweepPause)
		}
	}
	return next
}

// recheck makes good what note did between the look and the reset of keys.
func (x *elapser) recheck(group *consensus.Group) {
	var keys int
	group.Read(func(m *fsm.Machine) { keys = m.Info().Keys })
	if keys > 0 {
		x.mu.Lock()
		x.keys = true
		x.mu.Unlock()
		x.wake()
	}
}

// propose makes one attempt in the background: what is lost on the way is due again soon.
func (x *elapser) propose(ctx context.Context, group *consensus.Group, cmd fsm.Command) {
	select {
	case x.flights <- struct{}{}:
	case <-ctx.Done():
		return
	}
	x.c.goRun(func(ctx context.Context) {
		defer func() { <-x.flights }()
		_, _ = group.Propose(ctx, fsm.Encode(cmd))
		x.wake()
	})
}

// restQueue is a heap of rests by the time at which they are over.
type restQueue []*resting

func (q restQueue) Len() int           { return len(q) }
func (q restQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q restQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *restQueue) Push(r any) {
	r.(*resting).place = len(*q)
	*q = append(*q, r.(*resting))
}

// Pop implements heap.Interface.
func (q *restQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
