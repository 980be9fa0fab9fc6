package model

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
)

// exclude looks at all leases of t's lock that are valid at this moment, by their own nodes'
// clocks. Validity ends by the passing of time alone, so two that exclude each other meet when one
// begins or is extended. A holder that an operator robs learns it a little later: that is no
// violation.
func (w *world) exclude(t *tenure) {
	if w.plan.Wild || !t.counts() {
		return
	}
	for _, lock := range t.locks {
		w.excludeAt(t, lock)
	}
}

func (w *world) excludeAt(t *tenure, lock int) {
	kind := w.plan.Locks[lock]
	sum := 0
	for _, o := range w.valid[lock] {
		if o.counts() && !w.robbed(o.token) {
			weight, _ := o.c.spec.share(kind)
			sum += weight
		}
	}
	if _, limit := t.c.spec.share(kind); sum <= limit {
		return
	}
	for _, o := range w.valid[lock] {
		if o != t && o.counts() && !w.robbed(o.token) {
			w.broken("mutual exclusion", "%q: token %d of node %d is valid beside token %d of node %d, for another %v",
				w.lockName(lock), t.token, t.n.i, o.token, o.n.i, o.grant.Until().Sub(o.n.now()))
		}
	}
}

// expired is called where the end of a session is applied first: its holder must know by its own
// clock.
func (w *world) expired(id fsm.SessionID, renewed, ttl time.Duration) {
	w.stats.Expired++
	n := w.running(id.Process())
	if w.plan.Wild {
		return
	}
	if w.plan.Gentle && w.quorum && w.quorumSince <= renewed {
		late := w.now - w.timedSince(renewed) - ttl
		if w.stats.Late.Add(late); late > w.slack(ttl)+w.lateMax() {
			w.broken("a session that is not renewed ends in time", "session %s ended %v after its TTL", brief(id), late)
		}
	}
	if n == nil {
		return
	}
	s := n.keeper.table.Get(id.Number)
	if s == nil || s.Until() <= n.now() || n.keeper.misled(s) {
		return
	}
	w.broken("no lease ends early", "session %s expired although its holder relies on it for another %v",
		brief(id), s.Until().Sub(n.now()))
}

// known is called when a caller hears of its grant: the log must have it.
func (w *world) known(t *tenure) {
	for _, lock := range t.locks {
		if err := w.account.granted(t.grant.Session().ID(), t.c.ask.Request, w.lockName(lock), t.token); err != "" {
			w.broken("a grant that was answered is in the log", "token %d for call %d: %s", t.token, t.c.op, err)
		}
	}
}

// rested is called where the end of a rest is applied first: its time must be over in true time, by
// the clocks that the nodes were told of.
func (w *world) rested(p place) {
	w.stats.Rests++
	if w.plan.Wild {
		return
	}
	if lasted := w.now - p.at; lasted < w.atLeast(p.lasts) {
		w.broken("a rest does not end early", "token %d rested for %v, not for %v", p.token, lasted, p.lasts)
	}
	if w.plan.Gentle && w.quorum && w.quorumSince <= p.at {
		late := w.now - w.timedSince(p.at) - p.lasts
		if w.stats.LateRests.Add(late); late > w.slack(p.lasts)+w.lateMax() {
			w.broken("a rest ends in time", "token %d rested for %v, not for %v", p.token, w.now-p.at, p.lasts)
		}
	}
}

// timedSince is from when some voter that is up has timed what began at a moment: a replica that
// was restored since, or started, began anew with it.
func (w *world) timedSince(began time.Duration) time.Duration {
	since := w.now
	for _, n := range w.nodes {
		if n.up && w.group.votes(n.i) {
			since = min(since, n.timing)
		}
	}
	return max(since, began)
}

func (w *world) forgotten(key string, f *finished) {
	w.stats.Forgotten++
	if w.plan.Wild {
		return
	}
	kept := w.now - f.at
	if kept < w.atLeast(f.keep) {
		w.broken("a key is remembered as long as was asked for", "%s was forgotten after %v, not %v", key, kept, f.keep)
	}
	if w.plan.Gentle && w.quorum && w.quorumSince <= f.at {
		if w.stats.LateKeys.Add(kept - f.keep); kept > w.keptMax(f.keep)+w.slack(w.keptMax(f.keep)) {
			w.broken("a key is forgotten in time", "%s was kept for %v, not for %v", key, kept, f.keep)
		}
	}
}

// promise notes a minimum hold from the moment in which its holder knew of its grant.
func (w *world) promise(t *tenure) {
	if w.plan.Wild || w.robbed(t.token) {
		return
	}
	names := make([]string, len(t.locks))
	for i, l := range t.locks {
		names[i] = w.lockName(l)
	}
	w.account.promises = append(w.account.promises, promise{
		token: t.token, until: w.now + w.atLeast(t.c.spec.MinHold), names: names, mode: t.c.spec.Mode, weight: t.c.spec.Weight,
	})
}

// slack is how much longer than d it may take in true time until a clock within the bound has
// measured d.
func (w *world) slack(d time.Duration) time.Duration { return time.Duration(w.plan.Drift * float64(d)) }

// sound looks at what must hold of a node's side of its sessions after every call, whatever it says
// of itself.
func (k *keeper) sound() {
	w, n := k.n.w, k.n
	if err := k.table.Check(n.now()); err != nil {
		w.broken("the sessions of a node are sound", "node %d: %v", n.i, err)
	}
	for _, s := range k.table.All() {
		number := s.ID().Number
		if until := s.Until(); until > k.most[number].until {
			w.broken("validity counts from before a command was sent", "node %d: session %d is valid for %v, not for %v",
				n.i, number, until.Sub(n.now()), k.most[number].until.Sub(n.now()))
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
	if number := s.ID().Number; k.most[number].until == 0 {
		k.most[number] = k.n.validFor(validity{k.n.now(), k.n.lost()}, s.TTL())
	}
	for _, o := range k.n.calls {
		if o.asking && o.ask.Session == s && o.ask.Request < c.ask.Acked {
			k.n.w.broken("no answer is forgotten that a call waits for", "node %d: call %d says that %d was answered, which call %d waits for",
				k.n.i, c.op, o.ask.Request, o.op)
		}
	}
}

// confirmed notes how long the command leaves sessions by which the group has renewed them.
func (k *keeper) confirmed(keep fsm.Keep, sent validity, out fsm.Outcome) {
	if out.Code != fsm.CodeOK {
		return
	}
	for _, number := range keep.Sessions {
		if s := k.table.Get(number); s != nil {
			if next := k.n.validFor(sent, cmp.Or(keep.TTL, s.TTL())); next.until > k.most[number].until {
				k.most[number] = next
			}
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
// waits untold stands in the queue. A replica of a later life says nothing of that before it has
// all that the one before has told its process, perhaps after its own removal in the same step.
func (n *node) told() {
	if n.machine.Commands() < n.known {
		return
	}
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
