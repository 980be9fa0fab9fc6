package consensus

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A group that was restored from a backup as a whole does not know which tokens it has granted
// since. But its counter began at the time of its birth, with 2^20 tokens a second, and is behind
// the clock since: raising it to the clock after a start is enough. No replica can know whether the
// whole group was restored, so each raises it when it is raft leader for the first time since its
// process began.
//
// The clock is the median of the voters': a wrong one would use up the tokens of years, or be too
// low. No command gets into the log before the raise is committed (see opening.go), and no process
// is granted a lock before its Hello is applied: so none of a restored group is granted one before.

const (
	// clocksPatience is how long a raft leader waits for more clocks if the known ones do not
	// agree.
	clocksPatience = time.Second
)

// raise raises the token counter when this replica is raft leader for the first time, and opens the
// log. It returns when no other clock can make a difference, or the replica ends.
func (g *Group) raise() {
	for {
		leader, changed := g.leaders.now()
		if leader.replica != g.cfg.Replica {
			g.opening.discard()
		} else if g.raiseAsLeader(changed) {
			return
		}
		select {
		case <-changed:
		case <-g.carrier.Context().Done():
			return
		}
	}
}

// raiseAsLeader is done when no other voter's clock can make a difference. Until then the group
// serves, and the counter is raised again when another clock is known.
func (g *Group) raiseAsLeader(changed <-chan struct{}) (done bool) {
	for by := 0; ; {
		s, ok := g.survey(by, changed)
		if !ok || !g.raiseTo(fsm.TokensIn(s.median()), changed) {
			return false
		}
		if s.spread() > clocksAgree {
			g.cfg.Logger.Warn("the wall clocks of the voters differ: fencing tokens go by the median", "component", "raft",
				"by", s.spread(), "known", len(s.known), "voters", s.voters)
		}
		g.open()
		if s.sure() {
			return true
		}
		by = len(s.known)
	}
}

// survey waits until the clocks of most voters are known: until the others make no difference, or,
// after some patience, until there are more than by. It gives up when the raft leader changes.
func (g *Group) survey(by int, changed <-chan struct{}) (s survey, ok bool) {
	tick := time.NewTicker(clocksPatience)
	defer tick.Stop()
	for patient := true; ; {
		var told <-chan struct{}
		s, told = g.clocks.of(g.Members().Voters, g.cfg.Replica)
		switch {
		case s.sure(), !patient && s.majority() && len(s.known) > by:
			return s, true
		case !patient && !s.majority():
			g.open() // never seen: votes come with clocks
		}
		select {
		case <-told:
		case <-tick.C:
			patient = false
		case <-changed:
			return s, false
		case <-g.carrier.Context().Done():
			return s, false
		}
	}
}

// raiseTo raises the counter, again until it has an outcome or the raft leader changes.
func (g *Group) raiseTo(counter uint64, changed <-chan struct{}) (ok bool) {
	cmd := fsm.Encode(fsm.Raise{Counter: counter})
	for {
		_, err := g.propose(context.Background(), cmd)
		if err == nil {
			return true
		}
		g.cfg.Logger.Debug("raising the token counter", "component", "raft", "error", err)
		select {
		case <-time.After(g.cfg.Tick):
		case <-changed:
			return false
		case <-g.carrier.Context().Done():
			return false
		}
	}
}
