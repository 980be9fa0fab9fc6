package autopilot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
)

// view is an Input, counted and sorted.
type view struct {
	Input
	voters   []Member // the one heard longest ago first
	ready    []Member // the standbys that may be promoted now, the best first
	replicas int      // voters and standbys
	asking   int      // candidates that stay and are seen
	heard    int      // voters heard a moment ago that have not gone
	staying  int      // voters to count on: neither leaving nor silent for ReplaceAfter
	failed   int      // voters silent for ReplaceAfter
	leaving  int      // voters heard that leave
	domains  domains  // of the voters that stay
	follow   int      // replicas that stay and were heard within ReplaceAfter: P14
	spread   domains  // of those, and of standbys that were never heard: P14
}

func survey(in Input) view {
	if in.ReplaceAfter <= 0 {
		in.ReplaceAfter = ReplaceAfterDefault
	}
	if in.Moment <= 0 {
		in.Moment = MomentDefault
	}
	v := view{Input: in, domains: make(domains), spread: make(domains)}
	for _, m := range in.Members {
		if m.Node == in.Self {
			m.Heard = 0
		}
		if v.asks(m) {
			v.asking++
		}
		if m.Role != Candidate {
			v.replicas++
			follows := v.follows(m)
			if follows {
				v.follow++
			}
			if follows || m.Departure == fsm.Stays && !m.Running {
				v.spread.add(m.Zone)
			}
		}
		switch {
		case m.Role == Voter:
			v.voters = append(v.voters, m)
			v.count(m)
		case v.isReady(m):
			v.ready = append(v.ready, m)
		}
	}
	slices.SortFunc(v.voters, func(a, b Member) int {
		return cmp.Or(cmp.Compare(b.Heard, a.Heard), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(v.ready, v.better)
	return v
}

func (v *view) count(m Member) {
	switch {
	case m.Departure == fsm.Gone:
	case v.isFailed(m):
		v.failed++
	case m.Departure == fsm.Leaves:
	default:
		v.staying++
		v.domains.add(m.Zone)
	}
	if v.hears(m) {
		v.heard++
		if m.Departure == fsm.Leaves {
			v.leaving++
		}
	}
}

// better orders nodes by how good a voter each is: P9.
func (v *view) better(a, b Member) int { return v.domains.better(a, b) }

// better orders nodes by how good one is as a further replica beside those of the domains.
func (d domains) better(a, b Member) int {
	return cmp.Or(
		d.compare(a.Zone, b.Zone),
		cmp.Compare(a.rank(), b.rank()),
		cmp.Compare(b.Age, a.Age),
		cmp.Compare(a.Node, b.Node),
	)
}

// gathers reports whether the group still waits for the nodes that it expects before it chooses
// voters: P9. A leaving voter is replaced by any standby that is ready.
func (v *view) gathers() bool { return v.replicas < v.Expected && v.staying > 0 }

// domainComes reports whether the next standby to be promoted would crowd a zone or a host while a
// node of another one is on its way: P9. It is false where a voter is to be replaced, and at two
// voters, which bear no death.
func (v *view) domainComes() bool {
	if len(v.voters) == 2 || v.failed > 0 || v.leaving > 0 {
		return false
	}
	chosen := maps.Clone(v.domains)
	for _, next := range v.ready[:min(2, len(v.ready))] {
		if next.Age >= domainPatience {
			return false
		}
		if slices.ContainsFunc(v.Members, func(m Member) bool { return v.comes(m) && chosen.compare(m.Zone, next.Zone) < 0 }) {
			return true
		}
		chosen.add(next.Zone)
	}
	return false
}

// follows reports whether a replica is one of those that shall follow: P14.
func (v *view) follows(m Member) bool {
	return m.Role != Candidate && m.Departure == fsm.Stays && m.Heard < v.ReplaceAfter
}

// comes reports whether a node that lives will be ready to vote soon.
func (v *view) comes(m Member) bool {
	switch {
	case m.Departure != fsm.Stays || v.isReady(m):
		return false
	case m.Role == Standby:
		return v.hears(m)
	}
	return v.asks(m) && !(m.Able && v.isFull())
}

// asks reports whether a node that lives asks for a replica, and can start one: P15.
func (v *view) asks(m Member) bool {
	return m.Role == Candidate && m.Departure == fsm.Stays && m.Seen < v.Moment && !m.Unfit
}

// awaits reports whether a candidate would crowd a zone or a host with one of the last replicas of a
// group that does not serve yet, while enough nodes are to come for those: P9.
func (v *view) awaits(m Member) bool {
	places, missing := v.Expected-v.replicas, v.Meeting-v.replicas-v.asking
	return v.Expected > 0 && places <= missing && m.Able && m.Age < domainPatience && v.spread.has(m.Zone)
}

// hears reports whether a replica lives, as far as the raft leader can know: it was heard a moment
// ago.
func (v *view) hears(m Member) bool { return m.Heard < v.Moment && m.Departure != fsm.Gone }

// isFailed reports whether Raft has not heard a replica for long. What gossip says is not asked:
// P7.
func (v *view) isFailed(m Member) bool {
	if m.Stuck && v.Changed > 0 && v.Changed < v.ReplaceAfter { // P12
		return false
	}
	return m.Heard >= v.ReplaceAfter || v.isWiped(m)
}

// isWiped is P13. The heir takes the place of the voter, or any standby does if the heir is a client.
func (v *view) isWiped(m Member) bool {
	return m.Role == Voter && m.Heir != "" && !m.Stuck && m.Heard >= max(v.Patience, v.Moment) &&
		slices.ContainsFunc(v.Members, func(heir Member) bool {
			return heir.Node == m.Heir && (v.isReady(heir) || heir.Role == Candidate && slices.ContainsFunc(v.Members, v.isReady))
		})
}

func (v *view) isReady(m Member) bool {
	return m.Role == Standby && m.Departure == fsm.Stays && v.hears(m) &&
		m.Running && m.Behind <= behindMax && m.Age >= v.StableAfter
}

// quorum is how many of so many voters are a majority.
func quorum(voters int) int { return voters/2 + 1 }

// rank orders nodes with disks before those without.
func (m Member) rank() int {
	if m.Disk {
		return 0
	}
	return 1
}
