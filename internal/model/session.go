package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// session is a node's side of a session of the group, as in the root's session.go.
type session struct {
	id       fsm.SessionID
	ttl      time.Duration
	manual   bool
	requests lease.Numbers
	claims   []*claim // by request; few
	first    lease.Instant
	idle     lease.Instant
	sent     bool // first is set
	opened   bool
	over     bool
	judged   bool // ended by the group
	horizon  lease.Instant
	leaving  int  // leases that ended and leave a rest, of which the group has not heard
	lapsed   bool // whoever was told that it is not valid is never told otherwise
}

// claim is a call that waits, then its tenure.
type claim struct {
	request uint64
	call    *call // waits
	tenure  *tenure
	revoked bool
}

func (s *session) claim(request uint64) *claim {
	for _, c := range s.claims {
		if c.request == request {
			return c
		}
	}
	return nil
}

func (s *session) abandon(request uint64) {
	for i, c := range s.claims {
		if c.request == request {
			s.claims = append(s.claims[:i], s.claims[i+1:]...)
			return
		}
	}
}

// valid says whether the holder may act at now, by its clock. It does not make the session lapse.
func (s *session) valid(now lease.Instant) bool {
	return s.opened && !s.over && !s.judged && !s.lapsed && now < s.horizon
}

// keeper owns the node's sessions, as in the root's keeper.go.
type keeper struct {
	n        *node
	plan     *lease.Plan
	numbers  lease.Numbers
	sessions []*session // in the order of their numbers
	seq      uint64
	luck     uint64
	timer    timer
	flights  int
}

const keepalivesMax = 4

func (k *keeper) begin(n *node) {
	*k = keeper{n: n, luck: n.w.chance(4, uint64(n.i), n.incarnation)}
	k.plan = lease.NewPlan(n.w.plan.Drift, func() float64 {
		k.luck = mix(k.luck, 1)
		return fraction(k.luck)
	})
}

func (k *keeper) get(number uint64) *session {
	for _, s := range k.sessions {
		if s.id.Number == number {
			return s
		}
	}
	return nil
}

// session returns the shared session of a TTL, or one of the call's own.
func (k *keeper) session(ttl time.Duration, manual bool) *session {
	if !manual {
		for _, s := range k.sessions {
			if s.ttl == ttl && !s.manual && !s.over {
				return s
			}
		}
	}
	s := &session{
		id:  fsm.SessionID{Node: k.n.id, Incarnation: k.n.incarnation, Number: k.numbers.Begin()},
		ttl: ttl, manual: manual,
	}
	k.sessions = append(k.sessions, s)
	return s
}

// sending notes the time before the session's first command.
func (k *keeper) sending(s *session) {
	if !s.sent {
		s.sent, s.first, s.idle = true, k.n.now(), k.n.now()
	}
}

// finish says that nobody asks about a request any more.
func (s *session) finish(request uint64) { s.requests.Finish(request) }
