package holdfast

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// expirer times every session of the group: those that are not renewed are to end.
type expirer struct {
	c *Cluster

	mu    sync.Mutex
	table *lease.Expiries
	late  Lateness
}

// Lateness is how long after the end of their TTL sessions were ended, as seen by one node since it
// started, on its own clock. It is never negative, and two seconds at most at default timing, fail-over included.
type Lateness struct {
	Count     int
	Max, Last time.Duration
}

func newExpirer(c *Cluster) *expirer {
	return &expirer{c: c, table: lease.NewExpiries(c.cfg.Timing.Election, expireRetry)}
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

// ends are the sessions that are over. When there is none, next is when to look again.
func (x *expirer) ends(_ *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	over, next := x.table.Step(now, leads)
	for _, d := range over {
		due = append(due, fsm.Expire{Session: d.ID, Renewed: d.Renewed})
	}
	return due, next
}
