package lease

import (
	"math"
	"time"
)

const (
	renewFraction = 3   // a renewal is due when a third of the TTL is gone since the last good one
	renewJitter   = 0.1 // and up to this part of the third earlier, so that nodes don't renew in step
	retryFraction = 12  // an unanswered renewal is repeated after this part of the TTL,
	retryMin      = 10 * time.Millisecond
	retryMax      = time.Second
)

// Plan is the holder's side: which of this node's sessions to renew when, which are in jeopardy,
// and which are lost. What it keeps true, per session:
//
//	P1 the end of validity moves back by Retime alone, and is never later than ValidUntil of the last
//	   renewal sent, nor than what a change of the TTL leaves that may be carried out yet
//	P2 once lost, a session is never renewed, in jeopardy or safe again
//	P3 jeopardy is told once per trouble, and ends with either safe again or lost
//	P4 a session is told lost by the first Step at or after the end of its validity, exactly once
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
	shaky      bool    // in jeopardy, and it was told
	validUntil Instant // until when the holder may rely on the session
	most       Instant // no renewal moves the end of its validity beyond it while a change of the TTL may be carried out yet
	asked      uint64  // the last change of the TTL that was sent
	done       uint64  // the last one that is known to be carried out
	half       Instant // when half of that validity is gone
	renew      Instant // when the next renewal is due
}

// Actions is what to do now. Each session is in at most one of Lost and the other two.
type Actions struct {
	Renew    []uint64 // send a renewal for these; they are due again soon unless Renewed is called
	Lost     []uint64 // its validity is over: their leases are over. The plan has forgotten them
	Jeopardy []uint64 // half of the validity went by without an answer
	Next     Instant  // when to call Step again at the latest, if nothing else happens; Never without sessions
}

// NewPlan returns an empty plan. drift is that of ValidUntil; jitter returns numbers in [0, 1).
func NewPlan(drift float64, jitter func() float64) *Plan {
	return &Plan{drift: drift, jitter: jitter, sessions: make(map[uint64]*planned)}
}

// Open adds a session that the group has confirmed, and returns the end of its validity. sent is an
// instant before the first command that could have opened it was sent: not that of the one that was
// answered, since an earlier try may have opened it. Sessions that are not auto are never named in
// Renew or Jeopardy. For a session that is in the plan Open changes auto alone.
//
// A number is never opened again after it was lost or removed; the caller keeps that rule.
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
// of validity that holds now: the later of the old and the new one. safeAgain is true when this
// ends a jeopardy. ok is false if the session is not in the plan or its validity is over by now: it
// is lost, and the next Step says so if none has yet. A lease never comes back.
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

// Retime notes, before it is sent, that a renewal also changes the TTL of a session. change is its
// number, above those of all earlier changes. It may be carried out at any time from now on, and it
// may never be: until the outcome is known of this change or a later one, the holder relies on what
// both TTLs leave it. Retime returns the end of validity that holds now.
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

// Retimed is Renewed for the renewal of a Retime. It also returns the TTL that the group is known
// to have: a change that came before one which is known to be carried out changes nothing.
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

// ValidUntil is until when the holder may rely on a session; false if it is not in the plan.
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

// Step returns what is due at now. A session that is not auto comes up at the end of its validity
// only (see due).
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

// extend counts the validity of s from sent on, if that is later than what it has. It answers
// whether it is.
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

// due is when Step has something to do for s.
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
