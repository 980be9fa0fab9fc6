package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	// expiresMax is how many expiries this node proposes at a time.
	expiresMax = 64
	// expirePause is the longest sleep of the expirer: timers stand still while a machine is suspended.
	expirePause = time.Second
	// expireRetry is when an expiry that did not happen is proposed again.
	expireRetry = 200 * time.Millisecond
)

// expirer times every session of the group on this node's clock and proposes the end of those that were
// not renewed. The raft leader does so at once, the other voters a little later, in case its clock began late.
type expirer struct {
	c       *Cluster
	wakeup  chan struct{}
	flights chan struct{}

	mu    sync.Mutex
	table *lease.Expiries
	late  Lateness
}

// Lateness is how long after the end of their TTL sessions were ended, as seen by one node since it
// started, on its own clock. It is never negative; shared/design.md bounds it by two seconds, fail-over included.
type Lateness struct {
	Count     int
	Max, Last time.Duration
}

func newExpirer(c *Cluster) *expirer {
	return &expirer{
		c:       c,
		wakeup:  make(chan struct{}, 1),
		flights: make(chan struct{}, expiresMax),
		table:   lease.NewExpiries(c.cfg.Timing.Election, expireRetry),
	}
}

// note takes an event from the local apply.
func (x *expirer) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventSessionRenewed:
		now := x.c.clock.Now()
		x.mu.Lock()
		x.table.Renewed(e.Session, e.Index, e.TTL, now)
		x.mu.Unlock()
	case fsm.EventSessionEnded:
		now := x.c.clock.Now()
		x.mu.Lock()
		age, ttl, known := x.table.Ended(e.Session, now)
		if known && e.Reason == fsm.ReasonExpired {
			x.record(e.Session, age-ttl)
		}
		x.mu.Unlock()
	}
}

// record notes a lateness. The caller holds x.mu.
func (x *expirer) record(id fsm.SessionID, late time.Duration) {
	x.late.Count++
	x.late.Last = late
	x.late.Max = max(x.late.Max, late)
	x.c.hooks.sessionExpired(id.Node.String(), late)
}

func (x *expirer) lateness() Lateness {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.late
}

// restore starts every session of m anew: this node does not know how old their renewals are.
func (x *expirer) restore(m *fsm.Machine) {
	now := x.c.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.Reset()
	for s := range m.Sessions() {
		x.table.Renewed(s.ID, s.Renewed, s.TTL, now)
	}
}

func (x *expirer) wake() {
	select {
	case x.wakeup <- struct{}{}:
	default:
	}
}

// run proposes what is due until ctx ends.
func (x *expirer) run(ctx context.Context) {
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

func (x *expirer) step(ctx context.Context) time.Duration {
	group, _ := x.c.proposer.current()
	if group == nil || !x.c.votes(group) {
		return expirePause
	}
	now := x.c.clock.Now()
	x.mu.Lock()
	due, next := x.table.Step(now, group.IsRaftLeader())
	x.mu.Unlock()
	for _, d := range due {
		select {
		case x.flights <- struct{}{}:
		case <-ctx.Done():
			return expirePause
		}
		x.c.goRun(func(ctx context.Context) {
			defer func() { <-x.flights }()
			// One attempt: what is lost on the way is due again soon.
			_, _ = group.Propose(ctx, fsm.Encode(fsm.Expire{Session: d.ID, Renewed: d.Renewed}))
		})
	}
	return min(expirePause, max(time.Duration(next-now), time.Millisecond))
}
