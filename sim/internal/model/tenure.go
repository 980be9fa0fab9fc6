package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// releasePatience is how long a caller waits for its release to be confirmed.
const releasePatience = time.Second

// errMaxHold is why a holder's maximum ends its lease.
var errMaxHold = errors.New("maximum hold time reached")

type tenure struct {
	n        *node
	c        *call
	grant    session.Grant
	token    uint64
	life     uint64
	locks    []int // of a set
	weight   int
	limit    int
	works    int
	begun    bool // its caller knows that it has it
	over     bool // ended here
	wanted   bool // it was told that somebody waits
	shaky    bool // it was warned, and not yet told that it is safe again
	released bool // by its holder
	ended    bool // and its holder has seen it
	denied   bool // the group knew nothing of it when it was given back
	closed   bool // the caller has gone on

	renewals  int    // of a manual lease
	writing   bool   // a write of the value is under way
	unsettled uint64 // the request of the last one, if it may still be carried out
}

// resource is what a lock stands for, twice: a write replaces what was read, so a holder that
// writes what it made of an old reading makes the writes in between undone.
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
	t.begun = true
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
			if t.grant.Leave(session.Lost(errMaxHold)) {
				t.releaseLater()
			}
		})
	}
	t.n.told()
	if t.c.spec.Manual {
		t.renew()
	}
	t.work()
}

// valid is Lease.Valid, and what the holder thinks of it.
func (t *tenure) valid() bool {
	until, now := t.grant.Until(), t.n.now()
	if until > now && t.misled() {
		return true // as far as the holder knows
	}
	if until > now {
		e := t.event(history.Held)
		e.Remaining = time.Duration(float64(until.Sub(now)) / t.n.clock.rate)
		t.n.w.record(e)
		return true
	}
	if until != 0 {
		t.grant.Lapse(until)
		t.n.keeper.wake()
	}
	cause := history.CauseExpired
	if t.grant.Over() {
		cause = "forced"
	}
	t.see(cause)
	return false
}

// lasts says whether the lease is valid by its node's clock. It is no look of its holder's.
func (t *tenure) lasts() bool { return t.n.now() < t.grant.Until() }

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

// verify asks on a node whether the token is current: it reads the state that the node's replica
// has once everything is applied that was committed before.
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

// write sends what the holder made of its reading. It looks at the lease, and then it may be
// stopped for any time before its write goes out: no check of the holder's own can close that gap.
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

// leave ends the tenure as its caller wants it: by a release, or by doing nothing until the maximum
// hold.
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
	t.grant.Leave(session.ErrReleased)
	ctx := &patience{}
	w.after(n, releasePatience, ctx.expire)
	n.insistOn(ctx, t.grant.AppendRelease(nil, n.now()), func(out fsm.Outcome, known, unknown bool) {
		if known {
			t.confirmed(out, unknown)
		} else {
			t.releaseLater()
		}
		t.stop()
	})
}

// confirmed takes the answer to a release, as keeper.release does.
func (t *tenure) confirmed(out fsm.Outcome, unknown bool) {
	end := func() *fsm.PastGrant {
		return t.n.machine.Answer(fsm.QueryName{Name: t.grant.Name(), Token: t.token}).(fsm.NameState).End
	}
	switch t.grant.ReleaseAnswered(out, unknown, end) {
	case session.Done:
		t.n.w.record(t.event(history.Released))
	case session.Stale:
		t.denied = true
	}
	t.n.keeper.attend()
	if s := t.grant.Session(); s.Manual() && s.Ended() == nil {
		t.n.w.broken("a session of one lease ends with it", "node %d: session %d", t.n.i, s.ID().Number)
	}
}

func (t *tenure) releaseLater() {
	t.grant.ReleaseLater(t.n.now())
	t.n.keeper.attend()
}

// renew renews a manual lease at half of its TTL, as long as it lasts. If its caller likes to
// change that, every other time with the other TTL, and twice at once now and then.
func (t *tenure) renew() {
	s := t.grant.Session()
	t.n.w.after(t.n, s.TTL()/2, func() {
		if t.over || !t.valid() {
			return
		}
		ttl := s.TTL()
		if t.c.spec.Retime > 0 {
			if ttl = t.n.w.plan.TTLs[t.c.spec.TTL]; t.renewals%2 == 0 {
				ttl = t.c.spec.Retime
			}
		}
		t.renewals++
		ctx := &patience{}
		t.n.w.after(t.n, s.TTL(), ctx.expire)
		if t.c.spec.Retime > 0 && t.renewals%3 == 0 {
			t.n.keeper.renew(s, s.TTL(), ctx, func() {})
		}
		t.n.keeper.renew(s, ttl, ctx, t.renew)
	})
}

// Ended is the end of the lease, whoever ended it.
func (t *tenure) Ended(err error) {
	if !t.begun {
		return
	}
	if t.over {
		t.n.w.broken("a lease ends once", "token %d of node %d: again, with %v", t.token, t.n.i, err)
	}
	cause := history.CauseExpired
	if errors.Is(err, session.ErrForced) {
		cause = "forced"
	} else if errors.Is(err, errClockStopped) {
		cause = "its clocks stood still"
	}
	t.see(cause)
	t.out()
}

// Wanted is told to a holder when somebody waits.
func (t *tenure) Wanted(string) { t.wanted = true }

// Warned is told to a holder when renewal is in trouble, and when it is safe again.
func (t *tenure) Warned(safe bool, remaining time.Duration) {
	if t.shaky && !safe {
		t.n.w.broken("a holder is warned once for each trouble", "token %d of node %d, %v from its end", t.token, t.n.i, remaining)
	}
	t.shaky = !safe
}

func (t *tenure) out() {
	t.over = true
	for _, i := range t.locks {
		l := &t.n.w.valid[i]
		*l = slices.DeleteFunc(*l, func(o *tenure) bool { return o == t })
	}
}

func (t *tenure) gone() {
	t.see("the process crashed")
	t.out()
	t.stop()
}

func (t *tenure) stop() {
	if t.closed {
		return
	}
	t.closed = true
	if !t.over && t.n.up {
		t.grant.Settle(t.n.now()) // Lease.Err
		t.n.keeper.attend()
	}
	t.n.tenures = slices.DeleteFunc(t.n.tenures, func(o *tenure) bool { return o == t })
	t.c.then()
}
