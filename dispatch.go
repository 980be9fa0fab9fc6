package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
)

// observer takes what the local replica has applied to whoever is concerned on this node. Its methods run on the
// goroutine that applies: they only note things and wake others.
//
// A replica that begins empty, in a later life of the node, applies the log again, from its beginning or from a snapshot that is
// older than what its predecessor had applied. Who times things begins anew with it; the others, who have been told
// of those commands, are not told again.
type observer struct {
	c       *Cluster
	replica uint64
}

// Applied is called after a batch of commands was applied.
func (o observer) Applied(events []fsm.Event) {
	told, news := o.c.told.Load(), len(events)
	for i := range events {
		e := &events[i]
		o.c.expirer.note(e)
		o.c.elapser.note(e)
		if e.Index <= told {
			continue
		}
		news = min(news, i)
		o.c.pilot.note(e)
		o.c.keeper.table.Note(e)
	}
	last := events[len(events)-1].Index
	o.c.ages.note(last, o.c.clock.Now())
	o.c.keeper.attend()
	if news < len(events) {
		o.c.feed.publish(events[news:])
		o.c.told.Store(last)
	}
}

// Restored is called when the state came as a whole, from a snapshot.
func (o observer) Restored(m *fsm.Machine) {
	o.c.expirer.restore(m)
	o.c.elapser.restore(m)
	o.c.ages.restore(m.Commands(), o.c.clock.Now())
	if m.Commands() > o.c.told.Load() {
		o.c.keeper.table.Restore(m)
		o.c.keeper.attend()
		o.c.feed.skipped(m.Commands())
		o.c.told.Store(m.Commands())
	}
}

// LeaderChanged is called when another replica, or none, has become raft leader.
func (o observer) LeaderChanged() {
	o.c.proposer.wake()
	o.c.timekeeper.wake()
	o.c.pilot.wake()
	if g, _ := o.c.proposer.current(); g != nil {
		leader, _, _ := g.RaftLeader()
		o.c.hooks.raftLeader(leader)
	}
}

// Failed is called when the replica has stopped for good. One that is over concerns nobody any more.
func (o observer) Failed(err error) {
	if o.replica != o.c.founder.replica() {
		return
	}
	o.c.fail(dirError(fmt.Errorf("holdfast: the replica has failed: %w", err)))
}
