package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// exclude looks at all leases of t's lock that are valid at this moment, by their own nodes'
// clocks. Validity ends by the passing of time alone, so two that exclude each other meet when one
// begins or is extended. Who is robbed by an operator learns it a little later: that is no
// violation.
func (w *world) exclude(t *tenure) {
	if w.plan.Wild || !t.lasts() {
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
		if o.lasts() && !w.robbed(o.token) {
			weight, _ := o.c.spec.share(kind)
			sum += weight
		}
	}
	if _, limit := t.c.spec.share(kind); sum <= limit {
		return
	}
	for _, o := range w.valid[lock] {
		if o != t && o.lasts() && !w.robbed(o.token) {
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
	if s == nil || s.Until() <= n.now() {
		return
	}
	w.broken("no lease ends early", "session %s expired although its holder relies on it for another %v",
		brief(id), s.Until().Sub(n.now()))
}

// known is called when a caller hears of its grant: the log must have it.
func (w *world) known(t *tenure) {
	for _, lock := range t.locks {
		if err := w.shadow.granted(t.grant.Session().ID(), t.c.ask.Request, w.lockName(lock), t.token); err != "" {
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

// forgotten is called where a Once key is found forgotten first.
func (w *world) forgotten(key string, r *record) {
	w.stats.Forgotten++
	if w.plan.Wild {
		return
	}
	kept := w.now - r.at
	if kept < w.atLeast(r.keep) {
		w.broken("a key is remembered as long as was asked for", "%s was forgotten after %v, not %v", key, kept, r.keep)
	}
	if w.plan.Gentle && w.quorum && w.quorumSince <= r.at {
		if w.stats.LateKeys.Add(kept - r.keep); kept > w.keptMax(r.keep)+w.slack(w.keptMax(r.keep)) {
			w.broken("a key is forgotten in time", "%s was kept for %v, not for %v", key, kept, r.keep)
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
	w.shadow.promises = append(w.shadow.promises, promise{
		token: t.token, until: w.now + w.atLeast(t.c.spec.MinHold), names: names,
		share: share{token: t.token, mode: t.c.spec.Mode, weight: t.c.spec.Weight},
	})
}

// slack is how much longer than d it may take in true time until a clock within the bound has
// measured d.
func (w *world) slack(d time.Duration) time.Duration { return time.Duration(w.plan.Drift * float64(d)) }
