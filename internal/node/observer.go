package node

import (
	"github.com/holdfast-go/holdfast/fsm"
)

// observer passes what the local replica has applied to the organs of the node and to the Proposer,
// which calls its follower: single events by Applied, a whole state by Restored. Its methods run on
// the goroutine that applies: they only record, and wake other goroutines.
//
// A replica that begins empty, in a later life of the node, applies the log again (see
// internal/proposer). The node's timers begin anew with it.
type observer struct {
	n       *Node
	replica uint64
}

// Applied is called after a batch of commands was applied.
func (o observer) Applied(events []fsm.Event) {
	told, due := o.n.Proposer.Told(), false
	now := o.n.clock.Now() // after they were applied
	for i := range events {
		e := &events[i]
		due = o.n.times.Note(e, now) || due
		if e.Index > told {
			o.n.pilot.note(e)
		}
	}
	if due {
		o.n.timekeeper.Wake()
	}
	o.n.Proposer.AppliedHere(events)
	o.n.clients.Applied(events)
}

// Restored is called when the state came as a whole, from a snapshot.
func (o observer) Restored(m *fsm.Machine) {
	o.time(m)
	if m.Commands() > o.n.Proposer.Told() {
		o.n.pilot.skip()
	}
	o.n.Proposer.Restored(m)
	o.n.clients.Skipped(m.Commands())
}

// time resets the node's timers to a state.
func (o observer) time(m *fsm.Machine) {
	o.n.times.Restore(m, o.n.clock.Now())
	o.n.timekeeper.Wake()
}

// LeaderChanged is called when another replica, or none, has become raft leader.
func (o observer) LeaderChanged() {
	o.n.Proposer.Wake()
	o.n.timekeeper.Wake()
	o.n.pilot.Wake()
	o.n.quorum.Wake()
	o.n.tellLeader()
}

// tellLeader tells which node is raft leader, if the replica is open to calls.
func (n *Node) tellLeader() {
	n.telling.Lock()
	defer n.telling.Unlock()
	if g, _ := n.Proposer.Current(); g != nil {
		leader, _, _ := g.RaftLeader()
		n.cfg.Listener.LeaderChanged(leader)
	}
}

// Failed is called when the replica has stopped for good. The failure of a replica of a former life
// changes nothing, unless the other replicas refused it: then this process runs on a copy of its
// directory, in every life.
func (o observer) Failed(err error) {
	if o.replica != o.n.founder.replica() && !isRefused(err) {
		return
	}
	if o.n.asClient.outlives(err) { // founder.catchUp hears of it, too
		return
	}
	o.n.fail(o.n.outdated(err))
}
