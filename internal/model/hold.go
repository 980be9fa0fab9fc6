package model

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// releasePatience is how long a caller waits for its release to be confirmed.
const releasePatience = time.Second

// tenure is a lease: one grant in its holder's hands.
type tenure struct {
	n        *node
	c        *call
	s        *session
	token    uint64
	life     uint64
	granted  lease.Instant // when this node learnt of it
	locks    []int         // of a set
	weight   int
	limit    int
	works    int
	over     bool // ended here
	released bool // by its holder
	ended    bool // and its holder has seen it
	denied   bool // the group knew nothing of it when it was given back
	closed   bool // the caller has gone on

	writing   bool   // a write of the value is under way
	unsettled uint64 // the request of the last one, if it may still be carried out
}

// resource is what a lock stands for, twice: a write replaces what was read, so a holder that writes what
// it made of an old reading makes the writes in between undone.
type resource struct {
	guard    fence.Guard // of the fenced one
	fenced   uint64      // versions
	unfenced uint64
}

func newResources(n int) []resource {
	list := make([]resource, n)
	for i := range list {
		list[i].guard = fence.NewMemory()
	}
	return list
}

func (t *tenure) event(kind history.Kind) history.Event {
	e := t.c.event(kind)
	e.Token = t.token
	return e
}

func (t *tenure) begin() {
	w := t.n.w
	w.stats.Grants++
	t.weight, t.limit = t.c.spec.share(w.plan.Locks[t.c.spec.Lock])
	t.n.tenures = append(t.n.tenures, t)
	for _, l := range t.locks {
		w.valid[l] = append(w.valid[l], t)
	}
	e := t.event(history.Granted)
	e.Until = w.now
	w.record(e)
	if w.trace != nil {
		w.tell("node %d: call %d has %q, token %d", t.n.i, t.c.op, w.lockName(t.c.spec.Lock), t.token)
	}
	w.note(5, t.token)
	w.exclude(t)
	w.known(t)
	t.announce()
	if t.c.spec.MaxHold > 0 {
		w.after(t.n, t.c.spec.MaxHold, func() {
			if !t.over {
				t.end()
				t.releaseLater(true)
			}
		})
	}
	if t.s.manual {
		t.renew()
	}
	t.work()
}

// valid is Lease.Valid, and what the holder thinks of it.
func (t *tenure) valid() bool {
	now := t.n.now()
	if !t.over && t.s.valid(now) {
		e := t.event(history.Held)
		e.Remaining = time.Duration(float64(t.s.horizon.Sub(now)) / t.n.clock.rate)
		t.n.w.record(e)
		return true
	}
	t.s.lapsed = t.s.lapsed || !t.over
	t.see(history.CauseExpired)
	return false
}

// see records that the holder found its lease ended.
func (t *tenure) see(cause string) {
	if t.ended || t.released {
		return
	}
	t.ended = true
	e := t.event(history.Ended)
	if e.Cause = cause; t.c.spec.Manual || t.c.spec.MaxHold > 0 {
		e.Cause = "its holder's choice"
	}
	t.n.w.record(e)
}

// work does one update of the resource after the other while the lease is valid.
func (t *tenure) work() {
	if !t.valid() {
		t.stop()
		return
	}
	w, spec := t.n.w, t.c.spec
	if t.works >= spec.Works {
		w.after(t.n, spec.Hold, t.leave)
		return
	}
	t.works++
	lock := t.locks[t.works%len(t.locks)]
	if spec.Asker >= 0 {
		t.verify(w.nodes[spec.Asker], lock)
	}
	if spec.Value {
		t.set()
	}
	if t.weight < t.limit {
		w.after(t.n, spec.Think, t.work)
		return
	}
	r := &w.resources[lock]
	name, token := w.lockName(lock), fence.Token(t.token)
	w.after(nil, w.plan.Net.Delay, func() { // the request arrives at the resource
		admitted := r.guard.Check(context.Background(), name, token) == nil
		fenced, unfenced := r.fenced, r.unfenced
		w.after(nil, w.plan.Net.Delay, func() { // the answer arrives at the holder
			if !t.n.up || t.n.life != t.life {
				return
			}
			w.after(t.n, spec.Think, func() { t.write(name, r, admitted, fenced, unfenced) })
		})
	})
}

// verify asks on a node whether the token is current: it reads the state that the node's replica has once
// everything is applied that was committed before.
func (t *tenure) verify(n *node, lock int) {
	w := t.n.w
	if !n.up || n.paused {
		return
	}
	if w.plan.Locks[lock].Election || t.c.spec.Value || len(t.locks) > 1 {
		w.look(n, t.locks...)
	}
	w.ops++
	e := t.event(history.Verify)
	e.Op, e.Node, e.Lock = w.ops, n.i, w.lockName(lock)
	w.record(e)
	ctx := &patience{}
	w.after(n, releasePatience, ctx.expire)
	var current bool
	n.read(ctx, func(m *fsm.Machine) { current = m.Granted(e.Lock, e.Token) }, func() {
		e.Kind, e.OK = history.Verified, current
		w.record(e)
	})
}

// write sends what the holder made of its reading. It looks at the lease, and then it may be stopped for
// any time before its write goes out: no check of the holder's own can close that gap.
func (t *tenure) write(name string, r *resource, admitted bool, fenced, unfenced uint64) {
	if !t.valid() {
		t.stop()
		return
	}
	w, spec, token := t.n.w, t.c.spec, fence.Token(t.token)
	w.after(t.n, spec.Stall, func() {
		w.after(nil, w.plan.Net.Delay, func() {
			w.stats.Writes++
			if r.unfenced != unfenced {
				w.stats.LostWrites++
			}
			r.unfenced++
			if !admitted || r.guard.Check(context.Background(), name, token) != nil {
				w.stats.Refused++
			} else if r.fenced != fenced {
				w.broken("a fenced resource loses no update", "token %d wrote version %d over version %d of %q",
					t.token, fenced+1, r.fenced, name)
			} else {
				r.fenced++
			}
		})
		t.work()
	})
}

// leave ends the tenure as its caller wants it: by a release, or by doing nothing until the maximum hold.
func (t *tenure) leave() {
	if t.c.spec.MaxHold > 0 && !t.over {
		t.n.w.after(t.n, t.c.spec.MaxHold, t.stop)
		return
	}
	t.release()
}

func (t *tenure) release() {
	if !t.valid() {
		t.stop()
		return
	}
	if t.c.spec.Keep > 0 && !t.c.spec.Fails {
		t.finish()
		return
	}
	w, n := t.n.w, t.n
	w.record(t.event(history.Release))
	t.released = true
	t.end()
	rest := t.rest(false)
	ctx := &patience{}
	w.after(n, releasePatience, ctx.expire)
	t.giveBack(ctx, rest, func(out fsm.Outcome, known, unknown bool) {
		if !known {
			t.releaseLater(false)
		}
		t.confirmed(out, known, unknown)
	})
}

// confirmed takes the answer to a release, as keeper.released does.
func (t *tenure) confirmed(out fsm.Outcome, known, unknown bool) {
	end, remembered := t.n.machine.EndOf(t.n.w.lockName(t.c.spec.Lock), t.token)
	released := out.Code == fsm.CodeOK || unknown && end.Reason == fsm.ReasonReleased
	t.denied = known && !released && (!unknown || remembered)
	if known && released {
		t.n.w.record(t.event(history.Released))
	}
	t.stop()
}

// giveBack tells the group that the lease is over, and its session if it is its own. Its session stays in use until
// the group has heard of a rest.
func (t *tenure) giveBack(ctx *patience, rest time.Duration, then func(out fsm.Outcome, known, unknown bool)) {
	cmd := fsm.Release{
		Session: t.s.id, Acked: t.s.requests.Lowest(), Rest: rest, Close: t.s.manual,
		Grants: []fsm.Grant{{Name: t.n.w.lockName(t.c.spec.Lock), Token: t.token}},
	}
	if rest > 0 {
		t.s.leaving++
	}
	t.n.insist(ctx, cmd, func(out fsm.Outcome, known, unknown bool) {
		if known && t.s.manual {
			t.s.judged = true
			t.n.keeper.lose(t.s, false)
		}
		if then != nil {
			then(out, known, unknown)
		}
		if rest > 0 {
			t.s.leaving--
		}
	})
}

// rest is Lease.rest: for how long the place stays taken after the lease.
func (t *tenure) rest(lost bool) time.Duration {
	left := t.c.spec.MinHold - t.n.now().Sub(t.granted)
	if lost {
		left = max(left, t.c.spec.Delay)
	}
	if left <= 0 {
		return 0
	}
	return left + time.Millisecond - 1
}

// releaseLater gives back a lease that has ended here, with nobody waiting for it.
func (t *tenure) releaseLater(lost bool) {
	rest := t.rest(lost)
	if t.s.manual && rest == 0 {
		t.n.keeper.lose(t.s, false)
		return
	}
	t.giveBack(nil, rest, nil)
}

// renew renews a manual lease at half of its TTL, as long as it lasts.
func (t *tenure) renew() {
	t.n.w.after(t.n, t.s.ttl/2, func() {
		if t.over || !t.valid() {
			return
		}
		ctx := &patience{}
		t.n.w.after(t.n, t.s.ttl, ctx.expire)
		t.n.keeper.renew(t.s, ctx, t.renew)
	})
}

// extended is called when the session's horizon has moved.
func (t *tenure) extended() { t.n.w.exclude(t) }

// end ends the lease here, by its holder's will.
func (t *tenure) end() {
	t.lost()
	t.s.abandon(t.c.request)
}

// lost is the end of the lease from outside, of which its holder is told.
func (t *tenure) lost() {
	t.see(history.CauseExpired)
	t.over = true
	for _, i := range t.locks {
		l := &t.n.w.valid[i]
		*l = slices.DeleteFunc(*l, func(o *tenure) bool { return o == t })
	}
}

// gone is the end of the process.
func (t *tenure) gone() {
	t.see("the process crashed")
	t.lost()
	t.stop()
}

// stop lets the caller go on.
func (t *tenure) stop() {
	if t.closed {
		return
	}
	t.closed = true
	if !t.over && !t.s.over {
		t.n.keeper.check(t.s)
	}
	t.n.tenures = slices.DeleteFunc(t.n.tenures, func(o *tenure) bool { return o == t })
	t.c.then()
}
