package consensus

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A voter that leaves is raft leader only where no other voter can be. The entry that removes it is committed
// when most voters have it, and each knows that by the word of the raft leader. If the voter that leaves were
// raft leader by then, its last word were lost with a connection, and its node were gone, then the others would
// need its vote forever where they are half of the voters of before: of two one, of four with a dead one two.
// The group would be lost by a Leave.
//
// So one that leaves does not ask to be raft leader where the only other voter stays (Yield), and voters that
// stay do not answer for a while when it asks (shuns), also where its next process stays: the entry may be in
// the log, and not committed yet. Where a raft leader ends or its process dies, one that stays succeeds it if
// it can (leaving).

// yieldElections is for how many election timeouts without a raft leader a voter yields, and for how many
// after the first question without one another is shunned. The others may lack entries that this one has,
// and cannot be elected then.
const yieldElections = 4

// Yield says whether this replica leaves the raft leadership to others: it sends no pre-votes for a while when
// it hears no raft leader, and does not follow one that names it its successor.
func (g *Group) Yield(yes bool) { g.yield.Store(yes) }

// yields reports whether it does now.
func (g *Group) yields() bool {
	if !g.yield.Load() {
		return false
	}
	view := g.leaders.view.Load()
	return view.replica != 0 || time.Since(view.since) < yieldElections*g.cfg.Election
}

// shuns reports whether a node that asks for a pre-vote gets no answer yet, since the group knows that it leaves
// and that this one stays.
func (g *Group) shuns(from fsm.Node) bool {
	leaves, stays := false, false
	g.Read(func(m *fsm.Machine) {
		leaves, stays = m.MayGo(from), m.Departed(g.self.Node) == fsm.Stays && !m.MayGo(g.self.Node)
	})
	if !leaves || !stays {
		return false
	}
	if g.hearsLeader() {
		g.shunned.Store(nil) // or the time would be used up when it matters
		return true
	}
	now := time.Now()
	g.shunned.CompareAndSwap(nil, &now)
	first := g.shunned.Load()
	return first == nil || now.Sub(*first) < yieldElections*g.cfg.Election
}

// leaving are those of some voters of whose nodes the group knows that they leave, or may have to.
func (g *Group) leaving(voters map[uint64]string) map[uint64]bool {
	leaving := make(map[uint64]bool)
	g.Read(func(m *fsm.Machine) {
		for replica, voter := range voters {
			if node, err := fsm.ParseNode(voter); err == nil && m.MayGo(node) {
				leaving[replica] = true
			}
		}
	})
	return leaving
}

// hearsLeader reports whether this replica is raft leader, or hears one: then nobody else should be. The engine
// forgets a raft leader that it has not heard for two election timeouts, unless it has commits to apply.
func (g *Group) hearsLeader() bool {
	view := g.leaders.view.Load()
	switch {
	case view.replica == 0:
		return false
	case view.replica == g.cfg.Replica, time.Since(view.since) < 2*g.cfg.Election:
		return true
	}
	heard, _ := g.nodes.Heard(view.term)
	one, ok := heard[view.replica]
	return ok && time.Since(one.At) < 2*g.cfg.Election
}
