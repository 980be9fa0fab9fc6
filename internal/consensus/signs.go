package consensus

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/health"
)

// Signs are those of this replica's health, but for Leader, which takes gossip's view as well.
func (g *Group) Signs() health.Signs {
	return health.Signs{
		Unanswered: g.answers.For(), Writing: g.writing.For(), Leads: g.IsRaftLeader(),
		Last: g.reached.Last(), Committed: g.cfg.Figures.Committed.Load(),
	}
}

// SinceAnswer is the time since the group last answered this replica anything.
func (g *Group) SinceAnswer() time.Duration { return g.answers.SinceEnd() }

// HearsMajority reports whether this raft leader has heard a majority of the voters, itself
// included, within a time, or leads for less than that. A voter that is heard in a later term follows another, or is
// that: an engine that stands still does not know.
func (g *Group) HearsMajority(within time.Duration) bool {
	view := g.leaders.view.Load()
	heard, term := g.nodes.Heard(view.term)
	switch {
	case term > view.term:
		return false
	case time.Since(view.since) < within:
		return true
	}
	here, voters := 0, g.Members().Voters
	for replica := range voters {
		if one, ok := heard[replica]; replica == g.cfg.Replica || ok && time.Since(one.At) < within {
			here++
		}
	}
	return 2*here > len(voters)
}

// Successor is another voter that this raft leader has heard within a time, and among those the one with the
// most of its log, of several one that stays in the group; "" if there is none. One that has all of it can lead
// at once.
func (g *Group) Successor(within time.Duration) (node string, all bool) {
	if next := g.successors(within); len(next) > 0 {
		return next[0].node, next[0].match >= g.reached.Last()
	}
	return "", g.reached.Last() == 0
}

// successor is a voter that may succeed this raft leader.
type successor struct {
	node    string
	replica uint64
	match   uint64 // how much of the log it has
	leaves  bool   // the group
}

// successors are the other voters that this raft leader has heard within a time, the best one first.
func (g *Group) successors(within time.Duration) []successor {
	var all []successor
	voters, heard := g.Members().Voters, g.Heard()
	leaving := g.leaving(voters)
	for replica, voter := range voters {
		one, ok := heard[replica]
		if ok && replica != g.cfg.Replica && time.Since(one.At) < within {
			all = append(all, successor{voter, replica, one.Match, leaving[replica]})
		}
	}
	slices.SortFunc(all, func(a, b successor) int {
		return cmp.Or(cmp.Compare(b.match, a.match), stayFirst(a, b), cmp.Compare(b.replica, a.replica))
	})
	return all
}

// stayFirst puts those that stay in the group before those that leave it.
func stayFirst(a, b successor) int {
	switch {
	case a.leaves == b.leaves:
		return 0
	case a.leaves:
		return 1
	}
	return -1
}
