package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// exclude looks at all leases of t's lock that are valid at this moment, by their own nodes' clocks. Validity
// ends by the passing of time alone, so two that exclude each other meet when one begins or is extended. Who
// is robbed by an operator learns it a little later: that is no violation.
func (w *world) exclude(t *tenure) {
	if w.plan.Wild || !t.s.valid(t.n.now()) {
		return
	}
	sum := 0
	for _, o := range w.valid[t.c.spec.Lock] {
		if o.s.valid(o.n.now()) && !w.book.grants[o.token].forced {
			sum += o.weight
		}
	}
	if sum <= t.limit {
		return
	}
	for _, o := range w.valid[t.c.spec.Lock] {
		if o != t && o.s.valid(o.n.now()) && !w.book.grants[o.token].forced {
			w.broken("mutual exclusion", "%s: token %d of node %d is valid beside token %d of node %d, for another %v",
				w.lockName(t.c.spec.Lock), t.token, t.n.i, o.token, o.n.i, o.s.horizon.Sub(o.n.now()))
		}
	}
}

// expired is called where the end of a session is applied first: its holder must know by its own clock.
func (w *world) expired(id fsm.SessionID, renewed, ttl time.Duration) {
	w.stats.Expired++
	n := w.nodes[id.Node[0]-1]
	if w.plan.Wild {
		return
	}
	if w.plan.Gentle && w.quorum && w.quorumSince <= renewed {
		w.stats.Late.Add(w.now - renewed - ttl)
	}
	if !n.up || n.incarnation != id.Incarnation {
		return
	}
	s := n.keeper.get(id.Number)
	if s == nil || s.over || !s.valid(n.now()) {
		return
	}
	w.broken("no lease ends early", "session %s expired although its holder relies on it for another %v",
		brief(id), s.horizon.Sub(n.now()))
}

// known is called when a caller hears of its grant: the log must have it.
func (w *world) known(t *tenure) {
	if err := w.book.granted(t.s.id, t.c.request, w.lockName(t.c.spec.Lock), t.token); err != "" {
		w.broken("a grant that was answered is in the log", "token %d for call %d: %s", t.token, t.c.op, err)
	}
}
