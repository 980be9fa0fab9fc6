package holdfast

import (
	"sync"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// elapser times what hangs on no session: the rest of a place that stays taken, the periods of Once keys, the steps of what
// ends much. A replica that was restarted is only late.
type elapser struct {
	c    *Cluster
	wake func() // the timekeeper

	mu    sync.Mutex
	table *lease.Elapses
	keys  bool // there may be Once keys
	steps bool // something that has ended may still be there
}

func newElapser(c *Cluster, wake func()) *elapser {
	return &elapser{c: c, wake: wake, table: lease.NewElapses(c.cfg.Timing.Election, expireRetry)}
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
	case fsm.EventUnfinished:
		x.mu.Lock()
		x.steps = true
		x.mu.Unlock()
		x.wake()
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
	_, x.steps = m.Unfinished()
	x.wake()
}

// ends are the rests that are over, and what is due about Once keys and about what ends much. next is when to look again.
func (x *elapser) ends(group *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	x.mu.Lock()
	rests, next := x.table.Rests(now, leads, flightsMax)
	keys := x.keys
	x.mu.Unlock()
	for _, r := range rests {
		due = append(due, r)
	}
	if keys {
		turns, again := x.turnKeys(group, now, leads)
		due, next = append(due, turns...), min(next, again)
	}
	if step, again := x.step(group, now, leads); again < lease.Never {
		due, next = append(due, step...), min(next, again)
	}
	return due, next
}

// step is the next step of what has ended, if it is due, and when there is more to do.
func (x *elapser) step(group *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	x.mu.Lock()
	steps := x.steps
	x.steps = false // unless the state says otherwise, or an event does meanwhile
	x.mu.Unlock()
	if !steps {
		return nil, lease.Never
	}
	var last uint64
	var left bool
	group.Read(func(m *fsm.Machine) { last, left = m.Unfinished() })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.steps = x.steps || left
	propose, next := x.table.Continues(now, leads, last, left)
	if propose {
		due = append(due, fsm.Continue{Last: last})
	}
	return due, next
}

// turnKeys is what is due about Once keys, and when there is more to do.
func (x *elapser) turnKeys(group *consensus.Group, now lease.Instant, leads bool) (due []fsm.Command, next lease.Instant) {
	var classes []fsm.Class
	group.Read(func(m *fsm.Machine) { classes = m.Classes() })
	x.mu.Lock()
	due, next = x.table.Turns(now, leads, classes)
	x.keys = len(classes) > 0
	x.mu.Unlock()
	if len(classes) == 0 {
		x.recheck(group)
	}
	return due, next
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
