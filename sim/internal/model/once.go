package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// finished is Cluster.finished: whether this node's replica remembers a Once key as finished.
func (n *node) finished(name string) bool {
	key, _ := fsm.OnceKey(name)
	_, done := n.machine.Key(key)
	return done
}

// announce records what a lease is besides a lease.
func (t *tenure) announce() {
	w, spec := t.n.w, t.c.spec
	switch {
	case len(t.locks) > 1:
		w.stats.Sets++
	case spec.Lead:
		w.stats.Elections++
	case w.plan.Locks[spec.Lock].Once:
		w.stats.Begun++
		w.record(t.event(history.Begun))
	}
	if spec.MinHold > 0 {
		w.promise(t)
	}
}

// finish is Lease.finish: the function of a Once key has returned without an error.
func (t *tenure) finish() {
	w, n, spec := t.n.w, t.n, t.c.spec
	w.record(t.event(history.Release))
	t.released = true
	t.grant.End(session.ErrReleased)
	until := w.now + w.atLeast(spec.Keep)
	ctx := &patience{}
	s := t.grant.Session()
	w.after(n, s.TTL(), ctx.expire)
	cmd := fsm.Finish{
		Session: s.ID(), Acked: s.Acked(), Name: w.lockName(spec.Lock), Token: t.token,
		Keep: (spec.Keep + time.Millisecond - 1).Truncate(time.Millisecond),
	}
	n.insist(ctx, cmd, func(out fsm.Outcome, known, _ bool) {
		switch {
		case !known:
			t.releaseLater()
		case out.Code == fsm.CodeOK:
			w.stats.Finished++
			w.record(t.event(history.Released))
			if w.now < until && !w.plan.Wild { // or it may be forgotten by now
				e := t.event(history.Finished)
				e.OK, e.Until = true, until
				w.record(e)
			}
		}
		t.stop()
	})
}
