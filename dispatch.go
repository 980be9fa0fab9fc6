package holdfast

import (
	"github.com/holdfast-go/holdfast/fsm"
)

// observer takes what the local replica has applied to whoever is concerned on this node. It is the
// only road from there to the session core: single events by Applied, a whole state by Restored.
// Its methods run on the goroutine that applies: they only note things and wake others.
//
// A replica that begins empty, in a later life of the node, applies the log again, from its
// beginning or from a snapshot that is older than what its predecessor had applied. Who times
// things begins anew with it; the others, who have been told of those commands, are not told again.
type observer struct {
	c       *Cluster
	replica uint64
}

// Applied is called after a batch of commands was applied.
func (o observer) Applied(events []fsm.Event) {
	told, news, due := o.c.told.Load(), len(events), false
	now := o.c.clock.Now() // after they were applied
	for i := range events {
		e := &events[i]
		due = o.c.times.Note(e, now) || due
		if e.Index <= told {
			continue
		}
		news = min(news, i)
		o.c.pilot.note(e)
		o.c.keeper.table.Note(e)
	}
	if due {
		o.c.timekeeper.Wake()
	}
	last := events[len(events)-1].Index
	o.c.indexTimes.Note(last, now)
	o.c.keeper.attend()
	if news < len(events) {
		o.c.feed.Publish(events[news:])
		o.c.told.Store(last)
	}
}

// Restored is called when the state came as a whole, from a snapshot.
func (o observer) Restored(m *fsm.Machine) {
	o.time(m)
	if m.Commands() > o.c.told.Load() {
		o.c.keeper.table.Restore(m)
		o.c.keeper.attend()
		o.c.feed.Skipped(m.Commands())
		o.c.told.Store(m.Commands())
	}
}

// time lets what this node times begin anew with a state.
func (o observer) time(m *fsm.Machine) {
	now := o.c.clock.Now()
	o.c.times.Restore(m, now)
	o.c.indexTimes.Restore(m.Commands(), now)
	o.c.timekeeper.Wake()
}

// LeaderChanged is called when another replica, or none, has become raft leader.
func (o observer) LeaderChanged() {
	o.c.proposer.Wake()
	o.c.timekeeper.Wake()
	o.c.pilot.Wake()
	if g, _ := o.c.proposer.Current(); g != nil {
		leader, _, _ := g.RaftLeader()
		if o.c.hooks.raftLeader(leader) && leader != "" {
			o.c.counters.leaderChanges.Add(1)
		}
	}
}

// Failed is called when the replica has stopped for good. One that is over concerns nobody any
// more, unless the others refuse to hear it: then this process runs on a copy of its directory, in
// every life.
func (o observer) Failed(err error) {
	if o.replica != o.c.founder.replica() && !isRefused(err) {
		return
	}
	o.c.fail(o.c.apiError(err))
}
