package consensus

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A group whose replicas were all put back from a backup does not know which tokens it has granted
// since. But its counter began at the time of its birth, with room for 2^20 tokens a second, and is
// behind the clock since: it is enough to raise it to the clock after a start. No replica can know
// that all were put back, so each raises it when it is raft leader for the first time since its
// process began.
//
// It is raised to the median of the voters' clocks: one that is wrong would use up the tokens of
// years, or not be enough. Before that is committed, nothing gets into the log (see opening.go). A
// process is granted nothing before its Hello was carried out, so no process of a group that was
// put back is granted anything before the raise.

const (
	// tokenBits is the room for the tokens of one second: a group's first is of the time of its
	// birth (internal/forming).
	tokenBits = 20
	// clocksPatience is how long a raft leader waits for the clocks of other voters, if those that
	// it knows do not agree.
	clocksPatience = time.Second
)

// raise raises the token counter when this replica is raft leader for the first time, and lets
// commands into the log then. It returns when that is done for good, or the replica ends.
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
		case <-g.carrier.ended:
			return
		case <-g.failed:
			return
		}
	}
}

// raiseAsLeader is done when no other voter's clock would make a difference. As long as one may,
// the group serves with what it has, and is raised again when more is known.
func (g *Group) raiseAsLeader(changed <-chan struct{}) (done bool) {
	for by := 0; ; {
		s, ok := g.survey(by, changed)
		if !ok || !g.raiseTo(counterAt(s.median()), changed) {
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

// counterAt is the token counter at a time since 1970.
func counterAt(wall time.Duration) uint64 {
	return uint64(wall/time.Second)<<tokenBits + uint64(wall%time.Second)<<tokenBits/uint64(time.Second)
}

// survey waits until the clocks of most voters are known: as soon as the others make no difference,
// else, after some patience, when there are more than the last raise went by. It gives up when the
// raft leader changes.
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
			g.open() // not seen: the votes of most came with their clocks. Nobody waits for longer
		}
		select {
		case <-told:
		case <-tick.C:
			patient = false
		case <-changed:
			return s, false
		case <-g.carrier.ended:
			return s, false
		case <-g.failed:
			return s, false
		}
	}
}

// raiseTo raises the counter, again until that has an outcome or the raft leader changes.
func (g *Group) raiseTo(counter uint64, changed <-chan struct{}) (ok bool) {
	cmd := fsm.Encode(fsm.Raise{Counter: counter})
	for {
		_, err := g.propose(context.Background(), cmd)
		if err == nil {
			return true
		}
		g.cfg.Logger.Debug("raising the token counter", "component", "raft", "error", err)
		retry := time.NewTimer(g.cfg.Tick)
		select {
		case <-retry.C:
		case <-changed:
			return false
		case <-g.carrier.ended:
			return false
		case <-g.failed:
			return false
		}
	}
}
