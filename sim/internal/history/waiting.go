package history

import (
	"slices"
	"time"
)

// renewed is how long after an outage a session may still end that was not renewed meanwhile: a
// keepalive is repeated after a second at most.
const renewed = time.Second

// InOrder finds exclusive locks that were granted to a waiter although another one stood before it
// in the queue, and still waited, its node and the majority having been well all the time, and for a
// while before. Whom an operator has revoked has lost its place.
func InOrder(h []Event, _ Bounds) (found []Violation) {
	asked, places, answered := make(map[uint64]Event), make(map[uint64]int), make(map[uint64]int)
	before := make(map[uint64][]uint64) // who was seen before an op
	since := make(map[int]int)          // by node: the index since which it is well
	fleet := -1                         // the index since which the majority is
	ids := make(map[int]string)         // of what runs on each node
	lost := make(map[uint64]bool)       // ops that may have lost their places
	revoked := make(map[string]bool)    // ids whose revocation may still come
	for i, e := range h {
		switch e.Kind {
		case Asked:
			asked[e.Op], places[e.Op] = e, i
		case Granted, Refused:
			answered[e.Op] = i
		}
	}
	for i, e := range h {
		switch e.Kind {
		case Opened:
			ids[e.Node] = e.Value
		case Revoke:
			revoked[e.Value] = true
			for op, a := range asked {
				lost[op] = lost[op] || places[op] < i && ids[a.Node] == e.Value
			}
		case Revoked:
			revoked[e.Value] = revoked[e.Value] && !e.OK
		case Asked:
			lost[e.Op] = revoked[ids[e.Node]]
		case Well:
			since[e.Node] = i
		case Ill:
			delete(since, e.Node)
		case Quorum:
			if fleet = -1; e.OK {
				fleet = i
			}
		case Looked:
			for j, op := range e.Queue {
				for _, other := range e.Queue[:j] {
					if !slices.Contains(before[op], other) {
						before[op] = append(before[op], other)
					}
				}
			}
		case Granted:
			if a := asked[e.Op]; a.Weight != a.Limit {
				continue
			}
			for _, other := range before[e.Op] {
				o := asked[other]
				from, well := since[o.Node]
				settled := func(from int) bool { return from >= 0 && h[from].At+renewed <= o.At }
				well = well && settled(from) && settled(fleet)
				if done, ok := answered[other]; well && !lost[other] && o.Weight == o.Limit && (!ok || done > i) {
					found = append(found, broken("waiters are served in order", e.At, e.Lock,
						"op %d was granted before op %d, which stood before it", e.Op, other))
				}
			}
		}
	}
	return found
}

// InTime finds calls that answered too late after the end of their context, or never, whatever the
// faults.
func InTime(h []Event, b Bounds) (found []Violation) {
	open := make(map[uint64]Event)
	check := func(e Event, answered time.Duration) {
		if e.Until > 0 && answered > e.Until+b.Answer {
			found = append(found, broken("calls answer in time", answered, e.Lock,
				"op %d on node %d should have answered by %v", e.Op, e.Node, e.Until))
		}
	}
	for _, e := range h {
		switch e.Kind {
		case Asked:
			open[e.Op] = e
		case Granted, Refused:
			check(open[e.Op], e.Until)
			delete(open, e.Op)
		}
	}
	if len(h) > 0 {
		for _, e := range open {
			check(e, h[len(h)-1].At)
		}
	}
	return found
}

// lateness follows one lock, or all that are had together with it: who waits, who has one, and
// since when nothing excuses that none is granted.
type lateness struct {
	name    string
	ttl     time.Duration  // the longest that a caller asked for
	pause   time.Duration  // the longest time for which a caller asked the place to stay taken, or may think
	waiting map[uint64]int // op: node
	holders map[uint64]int // token: node
	since   time.Duration
	told    bool
}

func (l *lateness) concerns(node int) bool {
	for _, n := range l.waiting {
		if n == node {
			return true
		}
	}
	for _, n := range l.holders {
		if n == node {
			return true
		}
	}
	return false
}

func (l *lateness) excuse(at time.Duration) { l.since, l.told = at, false }

// late reports whether somebody well waits, and nobody well holds, for longer than allowed. It
// answers only once for one reason.
func (l *lateness) late(now time.Duration, well map[int]bool, b Bounds) bool {
	waits := false
	for _, node := range l.waiting {
		waits = waits || well[node]
	}
	for _, node := range l.holders {
		if well[node] {
			l.excuse(now)
		}
	}
	if !waits {
		l.excuse(now)
	}
	if l.told || now-l.since <= max(l.ttl, b.TTL)+b.Late+l.pause {
		return false
	}
	l.told = true
	return true
}

// latenesses are those of all locks by name. Locks that a set joins are one: who waits for one of
// them may stand behind a set that waits for another.
func latenesses(h []Event) map[string]*lateness {
	locks := make(map[string]*lateness)
	for _, e := range h {
		if e.Lock == "" || e.Kind == Watching || e.Kind == Unheard {
			continue
		}
		var one *lateness
		for _, name := range e.Names() {
			l := locks[name]
			switch {
			case l == nil && one == nil:
				one = &lateness{name: name, since: e.At, waiting: make(map[uint64]int), holders: make(map[uint64]int)}
			case one == nil:
				one = l
			case l != nil && l != one:
				one.ttl = max(one.ttl, l.ttl)
				for other, joined := range locks {
					if joined == l {
						locks[other] = one
					}
				}
			}
			locks[name] = one
			one.ttl = max(one.ttl, e.TTL)
		}
	}
	return locks
}

// NotLate finds locks that stayed without a holder for longer than the TTL and Bounds.Late although
// somebody waited, a majority being well all the time. The time begins again when the health of a
// node changes that waits or holds; it does not for others, so an election of a raft leader has to
// fit in. Where a caller asked that the place stays taken, that is added.
func NotLate(h []Event, b Bounds) (found []Violation) {
	locks := latenesses(h)
	each := make(map[*lateness]bool)
	for _, l := range locks {
		each[l] = true
	}
	well := make(map[int]bool)
	over := make(map[uint64]bool) // tokens: a lease may be seen valid until its release is under way
	quorum := false
	for _, e := range h {
		for l := range each {
			if !quorum {
				l.excuse(e.At)
			} else if l.late(e.At, well, b) {
				found = append(found, broken("a dead holder's lock is granted in time", e.At, l.name,
					"somebody waits, and nobody has it since %v", l.since))
			}
		}
		l := locks[e.Lock]
		switch e.Kind {
		case Well, Ill:
			well[e.Node] = e.Kind == Well
			for l := range each {
				if l.concerns(e.Node) {
					l.excuse(e.At)
				}
			}
		case Quorum:
			quorum = e.OK
		case Asked:
			l.pause = max(l.pause, e.MinHold, e.LockDelay, e.Pause)
			if e.Wait {
				l.waiting[e.Op] = e.Node
			}
		case Granted:
			delete(l.waiting, e.Op)
			l.excuse(e.At)
		case Refused: // it may have been granted after all, for up to a TTL
			delete(l.waiting, e.Op)
			l.excuse(e.At)
		case Held: // also on an ill node that can renew it: the group has it for as long
			if !over[e.Token] {
				l.holders[e.Token] = e.Node
			}
			if renewed := e.At + e.Remaining - max(l.ttl, b.TTL); renewed > l.since {
				l.excuse(renewed)
			}
		case Ended, Release:
			over[e.Token] = true
			delete(l.holders, e.Token)
			l.excuse(e.At)
		}
	}
	return found
}

// ServedAgain finds nodes that did not serve in time after the end of all faults. Every node that
// was ever well or ill counts.
func ServedAgain(h []Event, b Bounds) (found []Violation) {
	var over time.Duration
	ended := false
	nodes, served := make(map[int]bool), make(map[int]time.Duration)
	for _, e := range h {
		switch e.Kind {
		case Well, Ill:
			nodes[e.Node] = true
		case Over:
			over, ended = e.At, true
		case Served:
			if _, ok := served[e.Node]; !ok {
				served[e.Node] = e.At
			}
		}
	}
	if !ended {
		return nil
	}
	for node := range nodes {
		if at, ok := served[node]; !ok || at > over+b.Resume {
			found = append(found, broken("service resumes after the faults", max(at, over), "",
				"node %d has served=%v, the faults ended at %v", node, ok, over))
		}
	}
	return found
}
