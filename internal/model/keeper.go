package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// opened notes that the group has the session, and answers whether it is valid.
func (k *keeper) opened(s *session, queued bool) bool {
	if s.opened || s.over {
		return !s.over
	}
	s.opened = true
	s.horizon = k.plan.Open(s.id.Number, s.ttl, s.first, !s.manual || queued)
	k.wake()
	return k.check(s)
}

// handOver leaves the renewal of a manual session to its caller.
func (k *keeper) handOver(s *session, then func()) {
	k.renew(s, nil, func() {
		if k.check(s) {
			k.plan.Open(s.id.Number, s.ttl, 0, false)
		}
		then()
	})
}

// check ends the session if its horizon has passed, and answers whether it lives.
func (k *keeper) check(s *session) bool {
	if s.over {
		return false
	}
	if s.opened && (s.judged || k.n.now() >= s.horizon) {
		k.lose(s, true)
		return false
	}
	return true
}

// lose ends a session and everything on it; where the group may still have it, it is closed there. lost says that
// nobody here meant to let go.
func (k *keeper) lose(s *session, lost bool) {
	if s.over {
		return
	}
	s.over = true
	if k.n.w.trace != nil {
		k.n.w.tell("node %d: session %s is over", k.n.i, brief(s.id))
	}
	k.plan.Remove(s.id.Number)
	claims := s.claims
	s.claims = nil
	for _, c := range claims {
		switch {
		case c.tenure != nil:
			c.tenure.lost()
		case c.call != nil:
			c.call.woken(0, false)
		}
	}
	if s.judged {
		k.forget(s)
		return
	}
	cmd := fsm.CloseSession{Session: s.id, Lost: lost}
	k.n.insist(nil, cmd, func(fsm.Outcome, bool, bool) { k.forget(s) })
}

// discard drops a session that was never opened, once nothing hangs on it.
func (k *keeper) discard(s *session) {
	if !s.opened && !s.over && len(s.claims) == 0 && s.requests.Open() == 0 {
		s.over = true
		k.forget(s)
	}
}

// forget drops the last trace of a session that the group no longer has.
func (k *keeper) forget(s *session) {
	k.sessions = slices.DeleteFunc(k.sessions, func(o *session) bool { return o == s })
	k.numbers.Finish(s.id.Number)
}

func (k *keeper) wake() {
	k.timer.planned = 0
	k.n.set(&k.timer, k.n.now(), k.step)
}

// step does what lease.Plan says is due.
func (k *keeper) step() {
	now := k.n.now()
	acts := k.plan.Step(now)
	due := k.pick(acts.Renew)
	for _, s := range k.pick(acts.Lost) {
		k.lose(s, true)
	}
	due = slices.DeleteFunc(due, func(s *session) bool { return k.retire(s, now) })
	if len(due) > 0 && k.flights < keepalivesMax {
		k.keepalive(due)
	}
	if acts.Next != lease.Never {
		k.n.set(&k.timer, max(acts.Next, now.Add(time.Millisecond)), k.step)
	}
}

func (k *keeper) pick(numbers []uint64) (list []*session) {
	for _, n := range numbers {
		if s := k.get(n); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// retire closes a session of automatic renewal on which nothing has hung for a TTL.
func (k *keeper) retire(s *session, now lease.Instant) bool {
	if len(s.claims) > 0 || s.requests.Open() > 0 || s.leaving > 0 {
		s.idle = now
		return false
	}
	if now.Sub(s.idle) <= s.ttl {
		return false
	}
	k.lose(s, false)
	return true
}

func (k *keeper) command(batch []*session) fsm.Keep {
	k.seq++
	keep := fsm.Keep{Node: k.n.id, Incarnation: k.n.incarnation, Seq: k.seq, Lowest: k.numbers.Lowest()}
	for _, s := range batch {
		keep.Sessions = append(keep.Sessions, s.id.Number)
	}
	return keep
}

// keepalive renews sessions in one attempt: the plan decides on the next.
func (k *keeper) keepalive(batch []*session) {
	sent := k.n.now()
	k.flights++
	took := k.n.attempt(fsm.Encode(k.command(batch)), func(out fsm.Outcome, known bool) {
		k.flights--
		if known {
			k.renewed(batch, sent, out)
		}
	})
	if !took {
		k.flights--
	}
}

func (k *keeper) renewed(batch []*session, sent lease.Instant, out fsm.Outcome) {
	for _, s := range batch {
		if out.Code != fsm.CodeOK || slices.Contains(out.Lost, s.id.Number) {
			k.lose(s, true)
			continue
		}
		horizon, _, ok := k.plan.Renewed(s.id.Number, sent, k.n.now())
		if !ok {
			continue
		}
		if s.lapsed || s.over || s.judged {
			k.lose(s, true)
			continue
		}
		s.horizon = max(s.horizon, horizon)
		for _, c := range s.claims {
			if c.tenure != nil {
				c.tenure.extended()
			}
		}
	}
	k.wake()
}

// renew renews one session now, until it is known or ctx ends.
func (k *keeper) renew(s *session, ctx *patience, then func()) {
	sent := k.n.now()
	batch := []*session{s}
	k.n.insist(ctx, k.command(batch), func(out fsm.Outcome, known, _ bool) {
		if known {
			k.renewed(batch, sent, out)
		}
		then()
	})
}

// noteSession is keeper.note: what the group did to a session of this process.
func (n *node) noteSession(e *fsm.Event) {
	if e.Session.Node != n.id || e.Session.Incarnation != n.incarnation {
		return
	}
	s := n.keeper.get(e.Session.Number)
	if s == nil {
		return
	}
	switch e.Kind {
	case fsm.EventGranted:
		if !e.Waited {
			return // the call has it from its outcome
		}
		if c := s.claim(e.Request); c != nil && c.call != nil {
			c.call.granted(e.Token)
		}
	case fsm.EventSessionEnded:
		s.judged = true
		n.w.after(n, 0, func() { n.keeper.lose(s, true); n.keeper.forget(s) })
	case fsm.EventWithdrawn:
		over := e.Reason == fsm.ReasonFinished || e.Reason == fsm.ReasonSuperseded || e.Reason == fsm.ReasonRemoved
		if c := s.claim(e.Request); over && c != nil && c.call != nil {
			c.call.dismissed()
		}
	case fsm.EventForced:
		n.keeper.revoke(s, e.Request)
	}
}

func (k *keeper) revoke(s *session, request uint64) {
	c := s.claim(request)
	if c == nil {
		return
	}
	if c.tenure == nil {
		c.revoked = true
		return
	}
	c.tenure.see("forced")
	c.tenure.lost()
	s.abandon(request)
}

// restoreSessions is keeper.restore: after a snapshot, single events were missed.
func (n *node) restoreSessions() {
	for _, s := range slices.Clone(n.keeper.sessions) {
		if n.machine.SessionEnded(s.id) {
			s.judged = true
			n.w.after(n, 0, func() { n.keeper.lose(s, true); n.keeper.forget(s) })
			continue
		}
		for _, c := range slices.Clone(s.claims) {
			switch state, token := n.machine.Request(s.id, c.request); state {
			case fsm.RequestGranted:
				if c.call != nil {
					c.call.granted(token)
				}
			case fsm.RequestFinished:
				n.keeper.revoke(s, c.request)
				if c.call != nil {
					c.call.dismissed()
				}
			}
		}
	}
}
