// Package autopilot decides on the next change to the group's membership: who gets a replica, who
// votes, who is removed. It is a function of what the raft leader sees; the caller runs it there, carries
// out one change at a time, and asks again with fresh inputs. Voters in excess of Want that are well
// stay: only a removed node could become a non-voter again, as a new node.
//
// What every change keeps true:
//
//	A1 no change is proposed unless the alive, caught-up voters are a majority of the voters before it
//	A2 and of the voters after it
//	A3 a voter is removed for having failed only while at least Want others are there to vote, or when
//	   another one that is leaving would otherwise take the majority with it
//	A4 the raft leader's own replica is never removed: it hands raft leadership over first
package autopilot

import (
	"cmp"
	"slices"
	"time"
)

const (
	// FailedAfterDefault is after how long a failed voter is replaced.
	FailedAfterDefault = 30 * time.Second
	// forgetFactor is after how many times FailedAfter a failed non-voter is removed. It costs little,
	// and a removed node comes back as a new one only, so the patience is long.
	forgetFactor = 10
)

// Replica is a member of the group as the raft leader sees it.
type Replica struct {
	Node     string
	Zone     string        // failure domain, "" if unknown
	Alive    bool          // gossip hears it and its replica works; a parked replica is not alive
	CaughtUp bool          // it has applied nearly all of the log
	Stable   time.Duration // how long it has been alive and caught up without a break
	Failed   time.Duration // how long it has not been alive; 0 while it is
	Left     bool          // it is leaving or has left on purpose; while it is leaving it is alive and votes
}

// Candidate is a node that is alive, wants to be in this group and has no replica in it.
type Candidate struct {
	Node string
	Zone string
}

// Input is all that Next goes by. The order of the lists does not matter.
type Input struct {
	Self        string // the raft leader: the node that asks. It is taken to be alive and caught up
	Voters      []Replica
	NonVoters   []Replica
	Candidates  []Candidate
	Want        int           // how many replicas shall vote
	StableAfter time.Duration // how long a non-voter must have been stable to be promoted; 0: at once
	FailedAfter time.Duration // after how long a failed voter is replaced; 0: FailedAfterDefault
}

// Kind is what to change.
type Kind uint8

// Kinds of a change.
const (
	None        Kind = iota // nothing to do, or nothing that is safe
	AddNonVoter             // give a candidate a replica that follows
	Promote                 // make a non-voter a voter
	Remove                  // remove a voter or a non-voter for good
)

// String is the kind in words.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case AddNonVoter:
		return "add non-voter"
	case Promote:
		return "promote"
	case Remove:
		return "remove"
	}
	return "unknown"
}

// Change is one change to the group's membership.
type Change struct {
	Kind   Kind
	Node   string
	Reason string // for the log
}

// Next returns the change to make now.
func Next(in Input) Change {
	if in.FailedAfter <= 0 {
		in.FailedAfter = FailedAfterDefault
	}
	in.Voters = slices.Clone(in.Voters)
	for i := range in.Voters {
		if r := &in.Voters[i]; r.Node == in.Self {
			r.Alive, r.CaughtUp, r.Failed = true, true, 0
		}
	}
	if !quorum(in.healthy(), len(in.Voters)) {
		return Change{Reason: "too few voters are alive and caught up"}
	}
	for _, rule := range []func(Input) Change{
		removeLeftVoter, removeFailedVoter, promote, removeLeftNonVoter, addCandidate, removeFailedNonVoter,
	} {
		if c := rule(in); c.Kind != None && in.keepsQuorum(c) {
			return c
		}
	}
	return Change{}
}

func removeLeftVoter(in Input) Change {
	return in.remove(in.Voters, "left", func(r Replica) bool { return r.Left })
}

func removeLeftNonVoter(in Input) Change {
	return in.remove(in.NonVoters, "left", func(r Replica) bool { return r.Left })
}

// removeFailedVoter removes the voter that failed longest, once enough others vote without it. It does
// not wait for them while a voter is leaving: that one is still here only because it cannot be spared.
func removeFailedVoter(in Input) Change {
	leaving := func(r Replica) bool { return r.Left && r.healthy() && r.Node != in.Self }
	if len(in.present()) < in.Want && !slices.ContainsFunc(in.Voters, leaving) {
		return Change{}
	}
	return in.remove(in.Voters, "failed for long", func(r Replica) bool { return r.Failed > in.FailedAfter })
}

func removeFailedNonVoter(in Input) Change {
	return in.remove(in.NonVoters, "failed for long", func(r Replica) bool {
		return r.Failed > forgetFactor*in.FailedAfter
	})
}

// promote makes a voter where one is missing, in the zone with the fewest of them.
func promote(in Input) Change {
	present := in.present()
	if len(present) >= in.Want {
		return Change{}
	}
	covered := zones(present)
	ready := slices.DeleteFunc(slices.Clone(in.NonVoters), func(r Replica) bool {
		return !r.healthy() || r.Left || r.Stable < in.StableAfter
	})
	if len(ready) == 0 {
		return Change{}
	}
	best := slices.MinFunc(ready, func(a, b Replica) int {
		return cmp.Or(
			cmp.Compare(covered[a.Zone], covered[b.Zone]),
			cmp.Compare(b.Stable, a.Stable),
			cmp.Compare(a.Node, b.Node),
		)
	})
	return Change{Kind: Promote, Node: best.Node, Reason: "a voter is missing"}
}

// addCandidate gives a replica to a node without one, first where it may be needed as a voter.
func addCandidate(in Input) Change {
	covered := zones(in.present())
	has := make(map[string]bool)
	for _, r := range slices.Concat(in.Voters, in.NonVoters) {
		has[r.Node] = true
	}
	fresh := slices.DeleteFunc(slices.Clone(in.Candidates), func(c Candidate) bool { return has[c.Node] })
	if len(fresh) == 0 {
		return Change{}
	}
	best := slices.MinFunc(fresh, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(covered[a.Zone], covered[b.Zone]), cmp.Compare(a.Node, b.Node))
	})
	return Change{Kind: AddNonVoter, Node: best.Node, Reason: "joined"}
}

// remove picks the replica to remove among those that match: the one that failed longest.
func (in Input) remove(from []Replica, reason string, match func(Replica) bool) Change {
	gone := slices.DeleteFunc(slices.Clone(from), func(r Replica) bool { return r.Node == in.Self || !match(r) })
	if len(gone) == 0 {
		return Change{}
	}
	worst := slices.MinFunc(gone, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Node, b.Node))
	})
	return Change{Kind: Remove, Node: worst.Node, Reason: reason}
}

// present returns the voters to count on: not those that left, nor those that failed for too long.
func (in Input) present() []Replica {
	return slices.DeleteFunc(slices.Clone(in.Voters), func(r Replica) bool {
		return r.Left || r.Failed > in.FailedAfter
	})
}

// keepsQuorum is A2. A voter that is leaving counts while it is alive: otherwise two that leave at once
// would keep each other from being removed.
func (in Input) keepsQuorum(c Change) bool {
	healthy, voters := 0, 0
	count := func(r Replica) {
		voters++
		if r.healthy() {
			healthy++
		}
	}
	for _, r := range in.Voters {
		if c.Kind != Remove || c.Node != r.Node {
			count(r)
		}
	}
	for _, r := range in.NonVoters {
		if c.Kind == Promote && c.Node == r.Node {
			count(r)
		}
	}
	return quorum(healthy, voters)
}

// healthy counts the voters that can commit a change now.
func (in Input) healthy() int {
	n := 0
	for _, r := range in.Voters {
		if r.healthy() {
			n++
		}
	}
	return n
}

func (r Replica) healthy() bool { return r.Alive && r.CaughtUp }

func quorum(healthy, voters int) bool { return voters > 0 && healthy > voters/2 }

func zones(of []Replica) map[string]int {
	covered := make(map[string]int)
	for _, r := range of {
		covered[r.Zone]++
	}
	return covered
}
