package story

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// Wait is how long after the end of a lost lease's validity the next one of the same lock was
// granted.
type Wait struct {
	Lock    string
	Token   uint64        // of the next one
	At      time.Duration // of the next grant
	Late    time.Duration // after both the validity of the lost one and the call of the next
	Excused bool          // there was no majority all the while
}

// tenure is one grant of an exclusive lock.
type tenure struct {
	token               uint64
	asked, granted      time.Duration
	release, validUntil time.Duration // 0: never released, or never found valid
	ended               time.Duration // was found over; 0: never
	cause               string
	force               time.Duration // somebody began to take it away; 0: nobody did
	delay               time.Duration // for which the place stays taken after a loss
	node                int
	id                  string
	right               time.Duration // its node closed, or another process proved that it is dead; 0: neither
}

// revocation is an operator's word that a node is dead.
type revocation struct {
	id              string
	begun, answered time.Duration // answered 0: never, and it may be carried out at any time
}

// rights follows who may end what others hold, beside the holders themselves.
type rights struct {
	ids     map[int]string // of what runs on each node
	revokes map[uint64]*revocation
}

// turn takes notice of an event, and of what it means for the grants until now.
func (x *rights) turn(e history.Event, byToken map[uint64]*tenure) {
	switch e.Kind {
	case history.Opened:
		x.ids[e.Node] = e.Value
	case history.Revoke:
		x.revokes[e.Op] = &revocation{id: e.Value, begun: e.At}
	case history.Revoked:
		if r := x.revokes[e.Op]; r != nil && e.OK {
			r.answered = e.At
		}
	case history.Opens, history.Closes:
		if e.Kind == history.Opens && !e.OK {
			return
		}
		for _, t := range byToken {
			if t.node == e.Node && t.right == 0 {
				t.right = e.At
			}
		}
	}
}

// revoke notes which grants an operator has taken away with all that their node had.
func (x *rights) revoke(byToken map[uint64]*tenure) {
	for _, r := range x.revokes {
		for _, t := range byToken {
			if t.id == r.id && (r.answered == 0 || t.asked < r.answered) && (t.force == 0 || r.begun < t.force) {
				t.force = max(r.begun, 1)
			}
		}
	}
}

// tenures gathers the grants of locks that are always exclusive, by lock and in the order of their
// tokens.
func tenures(h []history.Event) map[string][]*tenure {
	asked := make(map[uint64]history.Event)
	byToken := make(map[uint64]*tenure)
	all := make(map[string][]*tenure)
	mixed := make(map[string]bool)
	force := make(map[uint64]time.Duration) // by token: perhaps before its holder had heard of the grant
	x := rights{ids: make(map[int]string), revokes: make(map[uint64]*revocation)}
	for _, e := range h {
		if e.Kind == history.Force && force[e.Token] == 0 {
			force[e.Token] = e.At
		}
	}
	for _, e := range h {
		t := byToken[e.Token]
		switch e.Kind {
		case history.Asked:
			asked[e.Op] = e
		case history.Granted:
			if a := asked[e.Op]; a.Weight != a.Limit {
				mixed[e.Lock] = true
			} else {
				t = &tenure{token: e.Token, asked: a.At, granted: e.At, force: force[e.Token], delay: a.LockDelay, node: e.Node, id: x.ids[e.Node]}
				byToken[e.Token] = t
				for _, name := range a.Names() {
					all[name] = append(all[name], t)
				}
			}
		case history.Held:
			if t != nil && e.Remaining != 0 { // not told for a lease with a maximum hold time
				t.validUntil = e.At + e.Remaining
			}
		case history.Release:
			if t != nil {
				t.release = e.At
			}
		case history.Ended:
			if t != nil && t.ended == 0 {
				t.ended, t.cause = e.At, e.Cause
			}
		default:
			x.turn(e, byToken)
		}
	}
	x.revoke(byToken)
	for lock, list := range all {
		if mixed[lock] {
			delete(all, lock)
			continue
		}
		slices.SortFunc(list, func(a, b *tenure) int { return int(int64(a.token) - int64(b.token)) })
	}
	return all
}

// clockSlack is what two readings of one machine's clocks may differ by.
const clockSlack = 2 * time.Millisecond

// Early finds grants of an exclusive lock that came while an earlier holder had been told that its
// lease is valid for longer, although that one had not given it back, nobody had taken it away, and
// no later process on its disk had proved that it is dead. A death that nobody proved is no excuse.
func Early(h []history.Event) (found []history.Violation) {
	for lock, list := range tenures(h) {
		for i, next := range list {
			for _, t := range list[:i] {
				over := t.release > 0 && t.release <= next.granted || t.force > 0 && t.force <= next.granted ||
					t.right > 0 && t.right <= next.granted ||
					t.ended > 0 && t.ended <= next.granted && t.cause != history.CauseExpired && t.cause != CauseDied
				if !over && t.validUntil > next.granted+clockSlack {
					found = append(found, violation("no grant before the end of the holder's validity", next.granted, lock,
						"token %d was granted %v before token %d was over", next.token, t.validUntil-next.granted, t.token))
				}
			}
		}
	}
	return found
}

// Waits returns how late exclusive locks were granted after a lease that was lost. Locks of a set
// are left out: who asks for one may stand behind a set that waits for another.
func Waits(h []history.Event) (all []Wait) {
	var without []span // a majority
	lost := time.Duration(0)
	quorum := false
	for _, e := range h {
		if e.Kind != history.Quorum {
			continue
		}
		if e.OK && !quorum {
			without = append(without, span{lost, e.At})
		}
		quorum, lost = e.OK, e.At
	}
	if !quorum && len(h) > 0 {
		without = append(without, span{lost, h[len(h)-1].At})
	}
	linked := make(map[string]bool)
	for _, e := range h {
		if len(e.Others) > 0 {
			for _, name := range e.Names() {
				linked[name] = true
			}
		}
	}
	for lock, list := range tenures(h) {
		if linked[lock] {
			continue
		}
		for i, next := range list {
			if i == 0 || list[i-1].release > 0 || list[i-1].force > 0 || list[i-1].validUntil == 0 {
				continue
			}
			since := max(list[i-1].validUntil+list[i-1].delay, next.asked)
			w := Wait{Lock: lock, Token: next.token, At: next.granted, Late: max(next.granted-since, 0)}
			w.Excused = slices.ContainsFunc(without, func(s span) bool { return s.from < next.granted && s.to > since })
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Wait) int { return int(a.At - b.At) })
	return all
}
