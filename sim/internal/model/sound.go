package model

import (
	"cmp"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
)

// sound looks at what must hold of a node's side of its sessions after every call, whatever it says
// of itself.
func (k *keeper) sound() {
	w, n := k.n.w, k.n
	if err := k.table.Check(n.now()); err != nil {
		w.broken("the sessions of a node are sound", "node %d: %v", n.i, err)
	}
	for _, s := range k.table.All() {
		number := s.ID().Number
		if until := s.Until(); until > k.most[number] {
			w.broken("validity counts from before a command was sent", "node %d: session %d is valid for %v, not for %v",
				n.i, number, until.Sub(n.now()), k.most[number].Sub(n.now()))
		}
	}
	for _, c := range n.calls {
		if c.waits && !c.news.told && c.ask.Session.Ended() != nil {
			w.broken("who waits is told of the end of its session", "node %d: call %d, session %d", n.i, c.op, c.ask.Session.ID().Number)
		}
	}
}

// asked notes how long the first command leaves a session that can open it, and asks whether the
// group is to forget an answer that another call waits for.
func (k *keeper) asked(c *call) {
	s := c.ask.Session
	if number := s.ID().Number; k.most[number] == 0 {
		k.most[number] = lease.ValidUntil(k.n.now(), s.TTL(), k.n.w.plan.Drift)
	}
	for _, o := range k.n.calls {
		if o.asking && o.ask.Session == s && o.ask.Request < c.ask.Acked {
			k.n.w.broken("no answer is forgotten that a call waits for", "node %d: call %d says that %d was answered, which call %d waits for",
				k.n.i, c.op, o.ask.Request, o.op)
		}
	}
}

// confirmed notes how long the command leaves sessions by which the group has renewed them.
func (k *keeper) confirmed(keep fsm.Keep, sent lease.Instant, out fsm.Outcome) {
	if out.Code != fsm.CodeOK {
		return
	}
	for _, number := range keep.Sessions {
		if s := k.table.Get(number); s != nil {
			k.most[number] = max(k.most[number], lease.ValidUntil(sent, cmp.Or(keep.TTL, s.TTL()), k.n.w.plan.Drift))
		}
	}
}

// keeps asks whether the group is to forget the number of a session that a node has.
func (k *keeper) keeps(keep fsm.Keep) {
	for _, s := range k.table.All() {
		if s.ID().Number < keep.Lowest {
			k.n.w.broken("no session is forgotten that a node has", "node %d has session %d, and none below %d", k.n.i, s.ID().Number, keep.Lowest)
		}
	}
}

// told asks, when the replica has applied something, whether all that it says has reached those
// whom it concerns: a lease that is valid is granted, a holder knows that it is wanted, and who
// waits untold stands in the queue.
func (n *node) told() {
	for _, t := range n.tenures {
		id, request := t.grant.Session().ID(), t.c.ask.Request
		if t.lasts() && !n.w.robbed(t.token) && !n.machine.Granted(t.grant.Name(), t.token) {
			n.w.broken("who lost its grant knows", "node %d: token %d of %q", n.i, t.token, t.grant.Name())
		}
		if !t.wanted && !t.over && n.machine.Wanted(id, request) {
			n.w.broken("a holder is told that it is wanted", "node %d: token %d of %q", n.i, t.token, t.grant.Name())
		}
	}
	for _, c := range n.calls {
		if !c.waits || c.news.told || c.ask.Session.Until() == 0 || n.w.revoked(c.ask.Session.ID()) { // its session is over, which it is told a little later
			continue
		}
		if state, _ := n.machine.Request(c.ask.Session.ID(), c.ask.Request); state != fsm.RequestWaiting {
			n.w.broken("who waits stands in the queue, or is told", "node %d: call %d for %q", n.i, c.op, n.w.lockName(c.spec.Lock))
		}
	}
}

// evicted asks why the session of a call that waits has expired: in gentle runs not while its node
// and a majority were well for longer than that takes, some elections included.
func (c *call) evicted(s *session.Session) {
	w, n := c.n.w, c.n
	since := max(n.wellSince, w.quorumSince)
	elections := 10 * w.plan.Election
	if w.plan.Gentle && n.well && w.quorum && s.TTL() > elections && w.now-since > s.TTL()+w.slack(s.TTL())+elections {
		w.broken("who waits keeps its place", "node %d: the session of call %d expired", n.i, c.op)
	}
}
