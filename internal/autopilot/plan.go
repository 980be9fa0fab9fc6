package autopilot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// Parts of the reasons to remove a voter.
const (
	silentReason  = "not heard for long, and "
	standbyReason = "a standby is ready to take its place"
	wipedReason   = "its host runs a new node, and " + standbyReason
)

// Next returns the step to take now.
func Next(in Input) Plan {
	v := survey(in)
	p := v.next()
	p.Index, p.Term = in.Index, in.Term // P8
	p.Full = v.isFull()
	p.Bears = max(v.heard-quorum(len(v.voters)), -1)
	return p
}

func (v *view) next() Plan {
	if p := v.blocked(); p.Kind != None { // P1
		return p
	}
	for _, rule := range []func() Plan{
		v.removeGone, v.removeOrdered, v.removeReplaced, v.promote, v.removeFailed, v.removeLeaving, v.handOver, v.removeStandby, v.removeSucceeded, v.removeExcess, v.addStandby,
	} {
		if p := rule(); p.Kind != None {
			return p
		}
	}
	return v.waiting()
}

// blocked is P1: why nothing at all may be done.
func (v *view) blocked() Plan {
	n := len(v.voters)
	switch {
	case v.Unknown:
		return Plan{Kind: Barrier, Reason: "the outcome of the last change is unknown"}
	case !slices.ContainsFunc(v.voters, func(m Member) bool { return m.Node == v.Self }):
		return wait("this node does not vote")
	case v.Listening < v.Moment:
		return wait("this raft leader has not yet listened long enough to know who lives")
	case v.heard < quorum(n):
		return wait("%d of %d voters are heard: no majority, no change", v.heard, n)
	}
	return Plan{}
}

// removeGone removes a voter that will never vote again at once: the majority of the voters heard
// does not shrink by it.
func (v *view) removeGone() Plan {
	return v.removeVoter(func(m Member) bool { return m.Departure == fsm.Gone }, "it has ended for good")
}

// removeOrdered removes a replica by an operator's order: P11.
func (v *view) removeOrdered() Plan {
	words := func(m Member) string {
		if m.Ordered == "" || v.hears(m) {
			return ""
		}
		return "an operator has ordered it: " + m.Ordered
	}
	for _, m := range v.voters { // removeVoter takes the first that matches
		if reason := words(m); reason != "" && m.Node != v.Self {
			return v.removeVoter(func(other Member) bool { return other.Node == m.Node }, reason)
		}
	}
	return v.pick(Remove, func(m Member) string {
		if m.Role == Standby {
			return words(m)
		}
		return ""
	})
}

// removeReplaced removes the voter that was silent longest before a standby takes its place, if
// there are standbys for all that are missing: P4. The group bears as many deaths in between.
// Promoted first, two newcomers that died at once made three of six, where three of five go on.
func (v *view) removeReplaced() Plan {
	if v.failed == 0 || len(v.ready) == 0 || v.staying >= v.Want || v.staying+len(v.ready)+v.failed-1 < v.Want {
		return Plan{}
	}
	p := v.removeSilent(standbyReason)
	if p.Kind == None && v.heard >= quorum(len(v.voters)-1) {
		return wait("%s is removed when the others have been heard since the last change", v.voters[0].Node)
	}
	return p
}

// promote makes a voter where one is missing.
func (v *view) promote() Plan {
	if len(v.ready) == 0 || v.staying >= v.Want || !v.mayPromote() || v.gathers() || v.domainComes() {
		return Plan{}
	}
	return Plan{Kind: Promote, Node: v.ready[0].Node, Reason: fmt.Sprintf("%d of %d wanted voters stay", v.staying, v.Want)}
}

// mayPromote is P2.
func (v *view) mayPromote() bool {
	if len(v.voters) == 1 {
		return len(v.ready) > 1 || v.staying == 0
	}
	return v.heard >= quorum(len(v.voters)+1)
}

// removeFailed removes the voter that was silent longest, if that is good for something: P4.
func (v *view) removeFailed() Plan {
	if v.failed == 0 {
		return Plan{}
	}
	n := len(v.voters)
	reason := ""
	switch {
	case len(v.ready) > 0 && v.staying < v.Want:
		reason = standbyReason
	case v.staying >= v.Want:
		reason = "enough others vote"
	case quorum(n-v.failed) < quorum(n):
		reason = "those that live bear more deaths without it"
	case v.leaving > 0:
		reason = "others could not leave"
	default:
		return Plan{}
	}
	return v.removeSilent(reason)
}

// removeSilent removes the voter that was silent longest.
func (v *view) removeSilent(reason string) Plan {
	p := v.removeVoter(v.isFailed, silentReason+reason)
	if slices.ContainsFunc(v.voters, func(m Member) bool { return m.Node == p.Node && m.Heard < v.ReplaceAfter && v.isWiped(m) }) {
		p.Reason = wipedReason
	}
	return p
}

// removeLeaving removes the leaving voters, one at a time, the one heard longest ago first: P5.
func (v *view) removeLeaving() Plan {
	if v.dissolves() || v.successorComes() {
		return Plan{}
	}
	return v.removeVoter(func(m Member) bool { return m.Departure == fsm.Leaves }, "it leaves")
}

// successorComes reports whether a node is on its way to the place of a voter that leaves, and no voter
// is silent that might be lost with it: P5.
func (v *view) successorComes() bool {
	return v.leaving > 0 && v.staying < v.Want && v.heard == len(v.voters) && slices.ContainsFunc(v.Members, func(m Member) bool {
		return v.comes(m) || m.Role == Standby && v.follows(m) && !m.Running && m.Heard < startPatience
	})
}

// dissolves reports whether all members leave: they only close, keep their data and form the same
// group when restarted.
func (v *view) dissolves() bool {
	return !slices.ContainsFunc(v.Members, func(m Member) bool {
		return m.Role != Candidate && m.Departure == fsm.Stays && !v.isLost(m)
	})
}

// isLost reports of a standby that it was not heard for long, and that gossip does not see it
// either, or that its node cannot start it.
func (v *view) isLost(m Member) bool {
	return m.Role == Standby && (v.isFailed(m) && m.Seen >= v.Moment || v.isUnfit(m))
}

// isUnfit is P15 of a standby.
func (v *view) isUnfit(m Member) bool { return m.Unfit && !v.hears(m) }

// removeVoter removes the voter that was heard longest ago among those that match, but the raft
// leader: P6. It does nothing if too few of those that remain are heard: P3.
func (v *view) removeVoter(match func(Member) bool, reason string) Plan {
	i := slices.IndexFunc(v.voters, func(m Member) bool { return m.Node != v.Self && match(m) })
	if i < 0 {
		return Plan{}
	}
	if v.without(v.voters[i]) < quorum(len(v.voters)-1) {
		return Plan{}
	}
	return Plan{Kind: Remove, Node: v.voters[i].Node, Reason: reason}
}

// without counts the voters besides one that were heard a moment ago, and since the last change.
func (v *view) without(gone Member) (heard int) {
	for _, m := range v.voters {
		if m.Node != gone.Node && v.hears(m) && (m.Node == v.Self || v.Changed == 0 || m.Heard < v.Changed) {
			heard++
		}
	}
	return heard
}

// handOver is P6: a raft leader that leaves gives way to another, which then removes it.
func (v *view) handOver() Plan {
	self := slices.IndexFunc(v.voters, func(m Member) bool { return m.Node == v.Self })
	if v.voters[self].Departure == fsm.Stays {
		return Plan{}
	}
	to := Member{}
	for _, m := range v.voters {
		if m.Node != v.Self && m.Departure == fsm.Stays && v.hears(m) && (to.Node == "" || m.Behind < to.Behind) {
			to = m
		}
	}
	if to.Node == "" {
		return Plan{}
	}
	return Plan{Kind: HandOver, Node: to.Node, Reason: "the raft leader itself leaves"}
}

// removeStandby removes a replica that votes for nothing and follows no more. Gossip may speak for
// it, P7, and against it, P15. A dead one does not keep the last voters from leaving: P5.
func (v *view) removeStandby() Plan {
	forget := forgetFactor * v.ReplaceAfter
	return v.pick(Remove, func(m Member) string {
		switch {
		case m.Role != Standby:
			return ""
		case m.Departure == fsm.Gone:
			return "it has ended for good"
		case m.Departure == fsm.Leaves && !v.dissolves():
			return "it leaves"
		case v.isUnfit(m):
			return "its node could not start it, and goes on as a client"
		case m.Heard >= forget && m.Seen >= forget:
			return "neither heard nor seen for long"
		case v.staying == 0 && v.isLost(m):
			return "not heard for long, and those that leave would wait for it"
		}
		return ""
	})
}

// removeSucceeded removes a replica that is silent and stays so, as its node has begun another
// life: P4. What gossip says of one that is heard counts for nothing.
func (v *view) removeSucceeded() Plan {
	succeeded := func(m Member) bool { return v.isFailed(m) && m.Succeeded }
	const reason = "not heard for long, and its node asks to come in as another replica"
	if p := v.removeVoter(succeeded, reason); p.Kind != None {
		return p
	}
	return v.pick(Remove, func(m Member) string {
		if m.Role == Standby && succeeded(m) {
			return reason
		}
		return ""
	})
}

// removeExcess is P14: the node of the standby goes on as a client. One that could vote now waits for
// another that catches up: that may be the better placed one, in whose favour it goes.
func (v *view) removeExcess() Plan {
	if v.follow <= v.Want+v.Standbys || !v.settled() {
		return Plan{}
	}
	spares := slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !v.isSpare(m) })
	if len(spares) == 0 {
		return Plan{}
	}
	worst := slices.MinFunc(spares, func(a, b Member) int {
		return cmp.Or(v.spread.compare(b.Zone, a.Zone), one(v.isReady(a))-one(v.isReady(b)), v.spread.better(b, a))
	})
	if v.isReady(worst) && slices.ContainsFunc(v.Members, func(m Member) bool { return v.follows(m) && m.Role == Standby && !v.isReady(m) }) {
		return Plan{}
	}
	reason := fmt.Sprintf("%d replicas follow, %d shall: it goes on as a client", v.follow, v.Want+v.Standbys)
	return Plan{Kind: Remove, Node: worst.Node, Reason: reason}
}

// settled reports whether a bound on replicas holds, and all voters are there that shall, and are well.
func (v *view) settled() bool {
	return v.Standbys > 0 && v.staying >= v.Want && v.staying == len(v.voters) && v.heard == len(v.voters)
}

// isSpare reports whether a standby lives whose node could go on as a client.
func (v *view) isSpare(m Member) bool { return m.Role == Standby && m.Able && v.hears(m) }

// addStandby gives a candidate a replica: P14.
func (v *view) addStandby() Plan {
	return v.first(v.sooner, AddStandby, func(m Member) string {
		if v.asks(m) && (!m.Able || !v.isFull() || v.exchanges(m)) && !v.awaits(m) {
			return v.joins(m)
		}
		return ""
	})
}

// exchanges reports whether a candidate would be better placed than a standby that goes for it, where
// nothing else is to be done: P14. The candidate is not the next to go, as its zone and host have fewer
// replicas even with it.
func (v *view) exchanges(m Member) bool {
	if v.Expected > 0 || v.follow != v.Want+v.Standbys || !v.settled() || v.heard+len(v.ready) < v.replicas {
		return false
	}
	with := maps.Clone(v.spread)
	with.add(m.Zone)
	return slices.ContainsFunc(v.Members, func(s Member) bool { return v.isSpare(s) && with.compare(m.Zone, s.Zone) < 0 })
}

// isFull reports whether no further replica is needed: P14.
func (v *view) isFull() bool { return v.Standbys > 0 && v.follow >= v.Want+v.Standbys }

// sooner orders candidates: those first that get a replica however many follow. One that could work
// as a client would else lose its replica as soon as those have theirs.
func (v *view) sooner(a, b Member) int {
	return cmp.Or(one(a.Able)-one(b.Able), v.spread.better(a, b))
}

// one is 1 for true, and 0 for false.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pick plans a step for the best of the members that why returns a reason for.
func (v *view) pick(kind Kind, why func(Member) string) Plan { return v.first(v.better, kind, why) }

// first plans a step for the first, in an order, of the members that why returns a reason for.
func (v *view) first(order func(a, b Member) int, kind Kind, why func(Member) string) Plan {
	var best Member
	reason := ""
	for _, m := range v.Members {
		if r := why(m); r != "" && (reason == "" || order(m, best) < 0) {
			best, reason = m, r
		}
	}
	if reason == "" {
		return Plan{}
	}
	return Plan{Kind: kind, Node: best.Node, Reason: reason}
}
