package autopilot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// String is the plan for an operator.
func (p Plan) String() string {
	switch p.Kind {
	case None:
		if p.Reason != "" {
			return "the membership is as wanted: " + p.Reason
		}
		return "the membership is as wanted"
	case Wait:
		return p.Reason
	case Barrier:
		return "looks again: " + p.Reason
	}
	return fmt.Sprintf("%v %s: %s", p.Kind, p.Node, p.Reason)
}

func wait(format string, args ...any) Plan {
	return Plan{Kind: Wait, Reason: fmt.Sprintf(format, args...)}
}

// waiting says what keeps the membership from being as wanted, if no step is possible now: the
// gravest thing alone.
func (v *view) waiting() Plan {
	for _, m := range v.voters {
		if m.Departure != fsm.Stays {
			return v.stuck(m)
		}
	}
	if v.staying < v.Want {
		return v.missing()
	}
	for _, m := range v.voters {
		if !v.hears(m) {
			return v.silent(m)
		}
	}
	if m, ok := v.silentStandby(); ok && v.Standbys > 0 && v.follow < v.Want+v.Standbys {
		return wait("standby %s has not been heard for %v: waits until it is, or for a node that takes its place", m.Node, m.Heard.Round(time.Second))
	}
	return Plan{Reason: v.full()}
}

// silentStandby is the standby that stays and has not been heard for the longest time.
func (v *view) silentStandby() (silent Member, ok bool) {
	for _, m := range v.Members {
		if m.Role == Standby && m.Departure == fsm.Stays && !v.hears(m) &&
			(!ok || cmp.Or(cmp.Compare(m.Heard, silent.Heard), cmp.Compare(silent.Node, m.Node)) > 0) {
			silent, ok = m, true
		}
	}
	return silent, ok
}

// joins says why a candidate is given a replica, and rather than the others.
func (v *view) joins(m Member) string {
	zone, host := v.spread.replicas(m.Zone)
	name, _, hasHost := strings.Cut(m.Zone, "/")
	switch {
	case !m.Able:
		return "it joins: it can do nothing without a replica"
	case v.isFull():
		return "it joins: a standby of a more crowded zone or host goes for it"
	case name != "" && zone == 0:
		return "it joins: no replica in zone " + name
	case hasHost && host == 0:
		return "it joins: no replica on host " + m.Zone
	case v.Standbys > 0:
		return fmt.Sprintf("it joins: %d of %d wanted replicas follow", v.follow, v.Want+v.Standbys)
	}
	return "it joins: every node shall have a replica"
}

// full says why nodes that ask for a replica are given none, "" if no node does.
func (v *view) full() string {
	clients := 0
	for _, m := range v.Members {
		if m.Role == Candidate && m.Able && !m.Unfit {
			clients++
		}
	}
	if clients == 0 || !v.isFull() {
		return ""
	}
	return fmt.Sprintf("%d of %d wanted replicas follow; clients that would take one: %d", v.follow, v.Want+v.Standbys, clients)
}

// stuck says why a voter that leaves is still there.
func (v *view) stuck(m Member) Plan {
	n := len(v.voters)
	switch {
	case v.dissolves() && len(v.Members) > 1:
		return wait("%s leaves, and nobody stays: all can only close", m.Node)
	case v.successorComes(), n == 1 && slices.ContainsFunc(v.Members, func(m Member) bool { return m.Role != Voter && m.Departure == fsm.Stays }):
		return wait("%s leaves, and waits until a standby is ready to vote in its place", m.Node)
	case n > 1 && m.Node == v.Self:
		return wait("%s leaves, and waits until a voter that stays is heard", m.Node)
	case n > 1:
		return wait("%s leaves, and waits: without it only %d of %d voters would be heard", m.Node, v.without(m), n-1)
	}
	return wait("%s leaves, and is the last: it can only close", m.Node)
}

// missing says why there are fewer voters than wanted.
func (v *view) missing() Plan {
	n := len(v.voters)
	behind := slices.ContainsFunc(v.Members, func(m Member) bool { return m.Role == Standby && m.Departure == fsm.Stays && v.hears(m) })
	switch {
	case v.gathers() && slices.ContainsFunc(v.Members, func(m Member) bool { return v.asks(m) && v.awaits(m) }):
		return wait("%d of the %d nodes that Bootstrap waits for are in sight: the last replicas wait a moment for nodes of other zones or hosts", v.replicas+v.asking, v.Meeting)
	case v.gathers():
		return wait("%d of the %d nodes that Bootstrap waits for are in the group: it chooses its voters when all are", v.replicas, v.Expected)
	case len(v.ready) > 0 && v.mayPromote() && v.domainComes():
		return wait("%d of %d wanted voters stay: waits a moment for a node of another zone or host than %s", v.staying, v.Want, v.ready[0].Node)
	case len(v.ready) == 1 && n == 1:
		return wait("1 of %d wanted voters, and %s stands by: a second voter alone would be one more that must live; waits for a third node", v.Want, v.ready[0].Node)
	case len(v.ready) > 0:
		return wait("%s is ready to vote, but only %d of %d voters are heard: waits until another is, or has been silent for %v", v.ready[0].Node, v.heard, n, v.ReplaceAfter)
	case behind:
		return wait("%d of %d wanted voters stay: waits until a standby has caught up", v.staying, v.Want)
	}
	another := "another node"
	if m, ok := v.silentStandby(); ok {
		another = fmt.Sprintf("standby %s, which is not heard, or another node", m.Node)
		if v.full() != "" {
			another = fmt.Sprintf("standby %s, which is not heard: a client takes its place after %v", m.Node, v.ReplaceAfter)
		}
	}
	kept := ""
	if v.failed > 0 {
		kept = fmt.Sprintf("; %s is given up, but without it no more deaths would be borne", v.voters[0].Node)
	}
	return wait("%d of %d wanted voters stay: waits for %s%s", v.staying, v.Want, another, kept)
}

// silent says when a voter that is not heard is given up.
func (v *view) silent(m Member) Plan {
	return wait("voter %s has not been heard for %v: it is given up after %v", m.Node, m.Heard.Round(time.Second), v.ReplaceAfter)
}
