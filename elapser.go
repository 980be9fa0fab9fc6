package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// elapsesMax is how many commands the elapser has under way at a time.
const elapsesMax = 64

// elapser times what hangs on no session, on this node's clock, and tells the group when its time is over: the
// rest of a place that stays taken, the periods of Once keys. As with sessions, the raft leader proposes at once
// and the other voters a little later; every replica has been timing all along, and a restarted one is only late.
type elapser struct {
	c       *Cluster
	wakeup  chan struct{}
	flights chan struct{}

	mu    sync.Mutex
	table *lease.Elapses
	keys  bool // there may be Once keys
}

func newElapser(c *Cluster) *elapser {
	return &elapser{
		c:       c,
		wakeup:  make(chan struct{}, 1),
		flights: make(chan struct{}, elapsesMax),
		table:   lease.NewElapses(c.cfg.Timing.Election, expireRetry),
	}
}

// note takes an event from the local apply.
func (x *elapser) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventResting:
		now := x.c.clock.Now()
		x.mu.Lock()
		x.table.Resting(fsm.Grant{Name: e.Name, Token: e.Token}, e.TTL, now)
		x.mu.Unlock()
		x.wake()
	case fsm.EventRested:
		x.mu.Lock()
		x.table.Rested(fsm.Grant{Name: e.Name, Token: e.Token})
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

// restore begins anew with all that there is: this node does not know how old it is.
func (x *elapser) restore(m *fsm.Machine) {
	now := x.c.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.Reset()
	for r := range m.Rests() {
		x.table.Resting(fsm.Grant{Name: r.Name, Token: r.Token}, r.For, now)
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
	leads := group.IsRaftLeader()
	now := x.c.clock.Now()
	x.mu.Lock()
	rests, next := x.table.Rests(now, leads, elapsesMax)
	keys := x.keys
	x.mu.Unlock()
	for _, r := range rests {
		x.propose(ctx, group, r)
	}
	if keys {
		next = min(next, x.turnKeys(ctx, group, now, leads))
	}
	return min(expirePause, max(time.Duration(next-now), time.Millisecond))
}

// turnKeys proposes what is due about Once keys, and returns when there is more to do.
func (x *elapser) turnKeys(ctx context.Context, group *consensus.Group, now lease.Instant, leads bool) lease.Instant {
	var classes []fsm.Class
	group.Read(func(m *fsm.Machine) { classes = m.Classes() })
	x.mu.Lock()
	due, next := x.table.Turns(now, leads, classes)
	x.keys = len(classes) > 0
	x.mu.Unlock()
	if len(classes) == 0 {
		x.recheck(group)
	}
	for _, cmd := range due {
		x.propose(ctx, group, cmd)
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
