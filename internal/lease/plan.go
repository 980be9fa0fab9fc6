package lease

import (
	"math"
	"time"
)

const (
	renewFraction = 3   // a renewal is due when a third of the TTL has passed since the last successful one
	renewJitter   = 0.1 // or up to this part of the third earlier, so that nodes do not renew in step
	retryFraction = 12  // an unanswered renewal is repeated after this part of the TTL
	retryMin      = 10 * time.Millisecond
	retryMax      = time.Second
)

// Plan is the holder's side: it schedules the renewals of this node's sessions, and detects
// jeopardy and loss. Invariants, per session:
//
//	P1 only Retime moves the end of validity back; it is never later than ValidUntil of the last
//	   renewal sent, nor than that of a change of the TTL that may still be applied
//	P2 once lost, a session is never renewed, in jeopardy or safe again
//	P3 Step reports a jeopardy once; it ends with either safe again or lost
//	P4 the first Step at or after the end of a session's validity reports its loss, exactly once
type Plan struct {
	drift    float64
	jitter   func() float64
	sessions map[uint64]*planned
	queue    queue[*planned]
}

type planned struct {
	slot
	number     uint64
	ttl        time.Duration
	auto       bool
	shaky      bool    // jeopardy has been reported
	validUntil Instant // end of validity
	most       Instant // upper bound of validUntil while a change of the TTL may still be applied
	asked      uint64  // the last change of the TTL that was sent
	done       uint64  // the last change that is known to be applied
	half       Instant // of the validity
	renew      Instant // next renewal
}

// Actions are the results of a Step. Each session is in at most one of Lost and the other two.
type Actions struct {
	Renew    []uint64 // sessions to renew; they are due again soon unless Renewed is called
	Lost     []uint64 // sessions whose validity is over, and their leases with it. The plan has forgotten them
	Jeopardy []uint64 // sessions without an answer for half of their validity
	Next     Instant  // the latest time of the next Step; Never without sessions
}

// NewPlan returns an empty plan. drift is that of ValidUntil; jitter returns numbers in [0, 1).
func NewPlan(drift float64, jitter func() float64) *Plan {
	return &Plan{drift: drift, jitter: jitter, sessions: make(map[uint64]*planned)}
}

// Open adds a session that the group has confirmed, and returns the end of its validity. sent is an
// instant before the first command that could have opened it: not before the answered one, since an
// earlier try may have opened the session. Sessions that are not auto never appear in Renew or
// Jeopardy. For a session in the plan Open changes auto alone.
//
// The caller never opens a number again after its session was lost or removed.
func (p *Plan) Open(session uint64, ttl time.Duration, sent Instant, auto bool) (validUntil Instant) {
	if s, ok := p.sessions[session]; ok {
		s.auto = auto
		p.queue.move(s, s.due())
		return s.validUntil
	}
	s := &planned{number: session, ttl: ttl, auto: auto, validUntil: math.MinInt64, most: Never}
	p.extend(s, sent)
	s.at = s.due()
	p.sessions[session] = s
	p.queue.push(s)
	return s.validUntil
}

// Renewed notes that the group has renewed a session by a command sent at sent, and returns the end
// of validity: the later of the old and the new one. safeAgain reports the end of a jeopardy. ok is
// false if the session is not in the plan or its validity is over by now: it is lost, and the next
// Step reports the loss if none has yet. A lease never comes back.
func (p *Plan) Renewed(session uint64, sent, now Instant) (validUntil Instant, safeAgain, ok bool) {
	s := p.sessions[session]
	if s == nil || now >= s.validUntil {
		return 0, false, false
	}
	if p.extend(s, min(sent, now)) && s.shaky && now < s.half {
		s.shaky, safeAgain = false, true
	}
	p.queue.move(s, s.due())
	return s.validUntil, safeAgain, true
}

// Retime notes, before the command is sent, that a renewal also changes the TTL of a session.
// change is its number, above those of all earlier changes. The group may apply it at any time from
// now on, or never: until the outcome of this change or a later one is known, the holder relies on
// the shorter validity. Retime returns the present end of validity.
func (p *Plan) Retime(session, change uint64, ttl time.Duration, sent Instant) (validUntil Instant, ok bool) {
	s := p.sessions[session]
	if s == nil {
		return 0, false
	}
	s.asked = change
	s.most = min(s.most, ValidUntil(sent, ttl, p.drift))
	s.validUntil = min(s.validUntil, s.most)
	p.queue.move(s, s.due())
	return s.validUntil, true
}

// Retimed is Renewed for the renewal of a Retime. It also returns the group's TTL as known: a
// change before one that is known to be applied changes nothing.
func (p *Plan) Retimed(session, change uint64, ttl time.Duration, sent, now Instant) (validUntil Instant, known time.Duration, ok bool) {
	s := p.sessions[session]
	if s == nil || now >= s.validUntil {
		return 0, 0, false
	}
	if change >= s.done {
		s.done, s.ttl = change, ttl
		if change == s.asked {
			s.most = Never
		}
		p.extend(s, min(sent, now))
		p.queue.move(s, s.due())
	}
	return s.validUntil, s.ttl, true
}

// ValidUntil is the end of validity of a session; false if it is not in the plan.
func (p *Plan) ValidUntil(session uint64) (Instant, bool) {
	s, ok := p.sessions[session]
	if !ok {
		return 0, false
	}
	return s.validUntil, true
}

// Remove forgets a session.
func (p *Plan) Remove(session uint64) {
	if s, ok := p.sessions[session]; ok {
		p.drop(s)
	}
}

// Step returns the actions due at now. A session that is not auto has none before the end of its
// validity.
func (p *Plan) Step(now Instant) Actions {
	var a Actions
	for {
		s, ok := p.queue.first()
		if !ok {
			a.Next = Never
			return a
		}
		if s.at > now {
			a.Next = s.at
			return a
		}
		if now >= s.validUntil {
			a.Lost = append(a.Lost, s.number)
			p.drop(s)
			continue
		}
		if now >= s.renew {
			a.Renew = append(a.Renew, s.number)
			s.renew = now.Add(min(max(s.ttl/retryFraction, retryMin), retryMax))
		}
		if now >= s.half && !s.shaky {
			a.Jeopardy = append(a.Jeopardy, s.number)
			s.shaky = true
		}
		p.queue.move(s, s.due())
	}
}

// extend counts the validity of s from sent on, and reports whether that is later than before.
func (p *Plan) extend(s *planned, sent Instant) bool {
	validUntil := min(ValidUntil(sent, s.ttl, p.drift), s.most)
	if validUntil <= s.validUntil {
		return false
	}
	third := float64(s.ttl) / renewFraction
	s.validUntil = validUntil
	s.half = sent.Add(validUntil.Sub(sent) / 2)
	s.renew = sent.Add(time.Duration(third * (1 - renewJitter*p.jitter())))
	return true
}

func (p *Plan) drop(s *planned) {
	delete(p.sessions, s.number)
	p.queue.remove(s)
}

// due is the time of the next action for s.
func (s *planned) due() Instant {
	at := s.validUntil
	if s.auto {
		at = min(at, s.renew)
		if !s.shaky {
			at = min(at, s.half)
		}
	}
	return at
}
