package consensus

import (
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
// included, within a time, or leads for less than that.
func (g *Group) HearsMajority(within time.Duration) bool {
	if time.Since(g.leaders.view.Load().since) < within {
		return true
	}
	here, voters := 0, g.Members().Voters
	heard := g.Heard()
	for replica := range voters {
		if one, ok := heard[replica]; replica == g.cfg.Replica || ok && time.Since(one.At) < within {
			here++
		}
	}
	return 2*here > len(voters)
}

// Successor is another voter that this raft leader has heard within a time, and among those the one with the
// most of its log; "" if there is none. One that has all of it can lead at once.
func (g *Group) Successor(within time.Duration) (node string, all bool) {
	heard, most := g.Heard(), uint64(0)
	for replica, voter := range g.Members().Voters {
		one, ok := heard[replica]
		if ok && replica != g.cfg.Replica && time.Since(one.At) < within && (node == "" || one.Match > most) {
			node, most = voter, one.Match
		}
	}
	return node, most >= g.reached.Last()
}
