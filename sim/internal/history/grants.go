package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

type grant struct {
	Event              // Granted, with what was asked for
	id          string // of the node that asked
	asked       int    // index of the event
	granted     int    // index of the event; -1 if it was never seen
	first, last int    // indexes of Held; -1 if never
	release     int    // index of Release; -1 if never
	released    int    // index of Released; -1 if never
	force       int    // index of the first Force or Revoke; -1 if never
	forced      int    // index of the first Forced or Revoked, if it was; -1 if never
	revoked     bool   // that is of Revoked
	ended       int    // index of Ended; -1 if never
	weighs      bool   // first and last are set
}

func grants(h []Event) map[uint64]*grant {
	asked := make(map[uint64]int)
	force := make(map[uint64]uint64)       // token by op
	ids := make(map[int]string)            // of what runs on each node
	by := make(map[uint64]string)          // ids by op
	revoke := make(map[string]revocations) // by id: several may be under way
	revoking := make(map[uint64][]*grant)  // by op
	all := make(map[uint64]*grant)
	get := func(token uint64) *grant {
		if all[token] == nil {
			all[token] = &grant{granted: -1, first: -1, last: -1, release: -1, released: -1, force: -1, forced: -1, ended: -1}
		}
		return all[token]
	}
	for i, e := range h {
		switch e.Kind {
		case Asked:
			asked[e.Op], by[e.Op] = i, ids[e.Node]
		case Granted:
			g := get(e.Token)
			if g.granted >= 0 {
				continue // Tokens says so
			}
			at, ok := asked[e.Op]
			if !ok {
				at = i
			}
			g.Event, g.id, g.asked, g.granted = e, by[e.Op], at, i
			g.terms(h[at])
			if begun, ok := revoke[g.id].concern(at); ok {
				g.force = max(begun, at)
			}
		case Held:
			g := get(e.Token)
			g.seen(i)
		case Release:
			get(e.Token).release = i
		case Released:
			get(e.Token).released = i
		case Force:
			force[e.Op] = e.Token
			get(e.Token).forces(i)
		case Forced:
			if e.OK {
				get(force[e.Op]).taken(i)
			}
		case Revoke:
			revoke[e.Value] = append(revoke[e.Value], &revocation{e.Op, i, -1})
			revoking[e.Op] = heldBy(all, e.Value)
			for _, g := range revoking[e.Op] {
				g.force = i
			}
		case Opened:
			ids[e.Node] = e.Value
		case Revoked:
			if !e.OK {
				continue
			}
			revoke[e.Value].answer(e.Op, i)
			for _, g := range revoking[e.Op] {
				g.revoked = g.taken(i) || g.revoked
			}
		case Ended:
			get(e.Token).ended = i
		}
	}
	return all
}

// forces notes that an operator begins to free the grant. Several may: the first counts.
func (g *grant) forces(i int) {
	if g.force < 0 {
		g.force = i
	}
}

// taken notes that an operator has freed the grant, and reports whether that is the first one.
func (g *grant) taken(i int) bool {
	if g.forced >= 0 {
		return false
	}
	g.forced = i
	return true
}

func (g *grant) terms(a Event) {
	g.Weight, g.Limit, g.Others, g.Election = a.Weight, a.Limit, a.Others, a.Election
	g.MinHold, g.LockDelay, g.TTL = a.MinHold, a.LockDelay, a.TTL
}

func (g *grant) seen(i int) {
	if !g.weighs {
		g.first, g.weighs = i, true
	}
	g.last = i
}

// heldBy are the grants that a node with an id was seen to have, and that nobody took from it.
func heldBy(all map[uint64]*grant, id string) (held []*grant) {
	for _, g := range all {
		if g.granted >= 0 && g.id == id && g.force < 0 {
			held = append(held, g)
		}
	}
	return held
}

// revocation is an operator's act on a node, by indexes. It concerns what is asked for before the
// answer; without one it may be carried out at any later time.
type revocation struct {
	op              uint64
	begun, answered int
}

type revocations []*revocation

// concern reports whether one of them concerns what is asked for at an index, and when that began.
func (all revocations) concern(asked int) (begun int, ok bool) {
	for _, r := range all {
		if r.answered < 0 || r.answered > asked {
			return r.begun, true
		}
	}
	return 0, false
}

func (all revocations) answer(op uint64, at int) {
	for _, r := range all {
		if r.op == op {
			r.answered = at
		}
	}
}

func (g *grant) ttl(b Bounds) time.Duration { return cmp.Or(g.TTL, b.TTL) }

func (g *grant) exclusive() bool { return g.granted >= 0 && g.Weight == g.Limit }

// excludes says whether two grants have a name in common that has no room for both.
func (g *grant) excludes(o *grant) bool {
	if g.Weight+o.Weight <= g.Limit {
		return false
	}
	for _, name := range g.Names() {
		if name == o.Lock || slices.Contains(o.Others, name) {
			return true
		}
	}
	return false
}

// over is the index at which the grant was known to have ended by the will of somebody; -1 if it
// was not.
func (g *grant) over() int {
	if g.released >= 0 && g.forced >= 0 {
		return min(g.released, g.forced)
	}
	return max(g.released, g.forced)
}

// heldAfter says whether the grant cannot have ended by i: its lease was valid later, and nobody
// had begun to release it or to take it away.
func (g *grant) heldAfter(i int) bool {
	return g.last > i && (g.release < 0 || g.release > i) && (g.force < 0 || g.force > i)
}

// MutualExclusion finds moments at which the leases that were valid weigh more than their lock
// allows. A lease counts from the first moment at which it was found valid to the last, or until an
// operator takes it by force or revokes its node: who is robbed hears of it later.
func MutualExclusion(h []Event, _ Bounds) (found []Violation) {
	all := grants(h)
	valid := make(map[string][]*grant)
	for i, e := range h {
		if e.Kind == Revoke {
			for name, list := range valid {
				valid[name] = slices.DeleteFunc(list, func(o *grant) bool { return o.id == e.Value })
			}
			continue
		}
		g := all[e.Token]
		if e.Kind != Held && e.Kind != Force || g.granted < 0 {
			continue
		}
		for _, name := range g.Names() {
			if e.Kind == Held && g.first == i && (g.force < 0 || g.force > i) {
				sum := g.Weight
				for _, other := range valid[name] {
					sum += other.Weight
				}
				if sum > g.Limit {
					found = append(found, broken("mutual exclusion", e.At, name,
						"token %d of node %d is valid beside %s: together they weigh %d of %d", e.Token, g.Node, list(valid[name]), sum, g.Limit))
				}
				valid[name] = append(valid[name], g)
			}
			if e.Kind == Force || g.last == i {
				valid[name] = slices.DeleteFunc(valid[name], func(o *grant) bool { return o == g })
			}
		}
	}
	return found
}

func list(gs []*grant) (s string) {
	for _, g := range gs {
		s += fmt.Sprintf("[token %d of node %d] ", g.Token, g.Node)
	}
	return s
}

// Tokens finds tokens that were given twice, and a grant that was asked for after another one of
// its lock was there and has no higher token.
func Tokens(h []Event, _ Bounds) (found []Violation) {
	seen := make(map[uint64]Event)     // by token
	highest := make(map[string]uint64) // by name
	asked := make(map[uint64]Event)    // by op
	floor := make(map[uint64]uint64)
	for _, e := range h {
		switch e.Kind {
		case Asked:
			asked[e.Op] = e
			for _, name := range e.Names() {
				floor[e.Op] = max(floor[e.Op], highest[name])
			}
		case Granted:
			if before, ok := seen[e.Token]; ok {
				found = append(found, broken("tokens are unique", e.At, e.Lock,
					"token %d was given before, for %q at %v", e.Token, before.Lock, before.At))
			}
			if e.Token <= floor[e.Op] {
				found = append(found, broken("tokens rise", e.At, e.Lock,
					"token %d was asked for when %d had been granted", e.Token, floor[e.Op]))
			}
			seen[e.Token] = e
			e.Others = asked[e.Op].Others
			for _, name := range e.Names() {
				highest[name] = max(highest[name], e.Token)
			}
		}
	}
	return found
}

// NothingForgotten finds leases that are valid after the group denied them, and tokens that the
// group confirmed after their lock was released, freed by force or, where it is exclusive, granted
// to another, or after it had denied them.
func NothingForgotten(h []Event, _ Bounds) (found []Violation) {
	all := grants(h)
	ended := make(map[uint64]string)   // by token: how
	highest := make(map[string]uint64) // exclusive grants by name
	over := make(map[uint64]string)    // by op of Verify: why the token cannot be current
	for i, e := range h {
		g := all[e.Token] // nil: of a grant that nobody recorded
		switch e.Kind {
		case Granted:
			if g.exclusive() {
				for _, name := range g.Names() {
					highest[name] = max(highest[name], e.Token)
				}
			}
		case Released:
			ended[e.Token] = "it was released"
		case Verify:
			over[e.Op] = ended[e.Token]
			if over[e.Op] == "" && g != nil && g.forced >= 0 && g.forced < i {
				over[e.Op] = "it was freed by force"
			}
			if over[e.Op] == "" && highest[e.Lock] > e.Token {
				over[e.Op] = fmt.Sprintf("%d had been granted", highest[e.Lock])
			}
		case Verified:
			if e.OK && over[e.Op] != "" {
				found = append(found, broken("reads are current", e.At, e.Lock,
					"token %d was confirmed although %s before", e.Token, over[e.Op]))
			}
			if !e.OK {
				ended[e.Token] = "it was denied"
				if g != nil && g.heldAfter(i) {
					found = append(found, broken("no grant is forgotten", e.At, e.Lock,
						"token %d of node %d was denied, and the lease was valid still at %v", e.Token, g.Node, h[g.last].At))
				}
			}
		}
	}
	return found
}

// NothingEarly finds leases that expired before the validity that their holder had been told was
// over. Whom an operator revokes may be told by the answer to another call that its session is
// over, and not yet why.
func NothingEarly(h []Event, _ Bounds) (found []Violation) {
	for token, g := range grants(h) {
		if g.ended < 0 || h[g.ended].Cause != CauseExpired || g.last < 0 || g.force >= 0 && g.force < g.ended {
			continue
		}
		// Remaining was measured on a clock whose rate may have changed since: a tenth is no news.
		seen, end := h[g.last], h[g.ended]
		if due := seen.At + seen.Remaining - seen.Remaining/10; end.At < due {
			found = append(found, broken("no lease ends early", end.At, g.Lock,
				"token %d of node %d expired although at %v %v of it remained", token, g.Node, seen.At, seen.Remaining))
		}
	}
	return found
}

// NoHealthyHolderLoses finds leases that expired although their node had been well, and so a
// majority, for a whole TTL of theirs.
func NoHealthyHolderLoses(h []Event, b Bounds) (found []Violation) {
	all := grants(h)
	ill := make(map[int]time.Duration) // when each node was last ill
	well := make(map[int]bool)
	var quorum bool
	var without time.Duration
	for _, e := range h {
		switch e.Kind {
		case Well, Ill:
			ill[e.Node], well[e.Node] = e.At, e.Kind == Well
		case Quorum:
			quorum, without = e.OK, e.At
		case Ended:
			g := all[e.Token]
			since := max(ill[g.Node], without)
			if e.Cause == CauseExpired && well[g.Node] && quorum && e.At-since > g.ttl(b) {
				found = append(found, broken("no healthy holder loses", e.At, e.Lock,
					"token %d expired on node %d, which had been well since %v", e.Token, g.Node, since))
			}
		}
	}
	return found
}
