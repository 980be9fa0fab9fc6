package consensus

import "time"

// A voter that leaves does not ask to be raft leader where the only other voter stays. The entry that removes
// it is committed when both have it, and each knows that by the word of the raft leader. If the voter that
// leaves were raft leader by then, its last word were lost with a connection, and its node were gone, then the
// other would wait for its vote forever: the group would be lost by a Leave.

// yieldElections is for how many election timeouts without a raft leader a voter yields. The other may lack
// entries that this one has, and cannot be elected then.
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
