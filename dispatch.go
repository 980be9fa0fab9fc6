package holdfast

import (
	"github.com/holdfast-go/holdfast/fsm"
)

// applyListener takes what the local replica has applied to whoever is concerned on this node. It
// is the only road from there to the session core: single events by Applied, a whole state by
// Restored. Its methods run on the goroutine that applies: they only note things and wake others.
//
// A replica that begins empty, in a later life of the node, applies the log again, from its
// beginning or from a snapshot that is older than what its predecessor had applied. Who times
// things begins anew with it; the others, who have been told of those commands, are not told again.
type applyListener struct {
	c       *Cluster
	replica uint64
}

// Applied is called after a batch of commands was applied.
func (l applyListener) Applied(events []fsm.Event) {
	told, news, due := l.c.told.Load(), len(events), false
	now := l.c.clock.Now() // after they were applied
	for i := range events {
		e := &events[i]
		due = l.c.times.Note(e, now) || due
		if e.Index <= told {
			continue
		}
		news = min(news, i)
		l.c.pilot.note(e)
		l.c.keeper.table.Note(e)
	}
	if due {
		l.c.timekeeper.Wake()
	}
	last := events[len(events)-1].Index
	l.c.indexTimes.Note(last, now)
	l.c.keeper.attend()
	if news < len(events) {
		l.c.feed.Publish(events[news:])
		l.c.told.Store(last)
	}
}

// Restored is called when the state came as a whole, from a snapshot.
func (l applyListener) Restored(m *fsm.Machine) {
	l.time(m)
	if m.Commands() > l.c.told.Load() {
		l.c.keeper.table.Restore(m)
		l.c.keeper.attend()
		l.c.feed.Skipped(m.Commands())
		l.c.told.Store(m.Commands())
	}
}

// time lets what this node times begin anew with a state.
func (l applyListener) time(m *fsm.Machine) {
	now := l.c.clock.Now()
	l.c.times.Restore(m, now)
	l.c.indexTimes.Restore(m.Commands(), now)
	l.c.timekeeper.Wake()
}

// LeaderChanged is called when another replica, or none, has become raft leader.
func (l applyListener) LeaderChanged() {
	l.c.proposer.Wake()
	l.c.timekeeper.Wake()
	l.c.pilot.Wake()
	if g, _ := l.c.proposer.Current(); g != nil {
		leader, _, _ := g.RaftLeader()
		if l.c.hooks.raftLeader(leader) && leader != "" {
			l.c.counters.leaderChanges.Add(1)
		}
	}
}

// Failed is called when the replica has stopped for good. One that is over concerns nobody any
// more, unless the others refuse to hear it: then this process runs on a copy of its directory, in
// every life.
func (l applyListener) Failed(err error) {
	if l.replica != l.c.founder.replica() && !isRefused(err) {
		return
	}
	l.c.fail(l.c.apiError(err))
}
