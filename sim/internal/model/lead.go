package model

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// The product's (election.go).
const (
	campaignPause    = 100 * time.Millisecond
	campaignPauseMax = 5 * time.Second
)

// candidacy is Cluster.Lead: it campaigns again after every loss, until its context ends or its
// function returns.
type candidacy struct {
	n      *node
	spec   Call
	then   func()
	until  time.Duration // the end of its context
	losses int
	began  time.Duration
	rests  bool // between two campaigns
}

func (n *node) lead(spec Call, then func()) {
	l := &candidacy{n: n, spec: spec, then: then, until: n.w.now + spec.Patience}
	n.leads = append(n.leads, l)
	l.campaign()
}

func (l *candidacy) campaign() {
	w := l.n.w
	l.rests = false
	spec := l.spec
	spec.Patience = l.until - w.now
	var c *call
	c = l.n.call(spec, func() { l.over(c) })
}

// over takes the end of a campaign, or of the tenure that it led to.
func (l *candidacy) over(c *call) {
	w := l.n.w
	t := c.tenure
	lost := t != nil && (!t.released || t.denied)
	if !l.n.up || !lost || w.now >= l.until || w.healed {
		l.end()
		return
	}
	w.stats.Campaigns++
	if w.now-l.began > campaignPauseMax {
		l.losses = 0
	}
	d := min(campaignPause<<min(l.losses, 10), campaignPauseMax)
	l.losses++
	l.rests = true
	w.after(l.n, d/2+within(w.chance(6, c.op), d/2), func() {
		if w.now >= l.until || w.healed {
			l.end()
			return
		}
		l.campaign()
	})
}

func (l *candidacy) end() {
	l.n.leads = slices.DeleteFunc(l.n.leads, func(o *candidacy) bool { return o == l })
	l.then()
}

// gone is the end of the process while it rests; a campaign or tenure ends by itself.
func (l *candidacy) gone() {
	if l.rests {
		l.end()
	}
}

// writing records the beginning of a write of a lock's value. Each value is written once.
func (n *node) writing(lock int, op *uint64) history.Event {
	n.w.ops++
	*op = n.w.ops
	e := history.Event{
		Kind: history.Set, Op: n.w.ops, Node: n.i, Lock: n.w.lockName(lock), Value: strconv.FormatUint(n.w.ops, 10),
	}
	n.w.record(e)
	return e
}

func (n *node) written(lock int, op uint64) {
	n.w.record(history.Event{Kind: history.Done, Op: op, Node: n.i, Lock: n.w.lockName(lock), OK: true})
}

// set is Lease.Set of a new value, for which the holder does not wait. It writes nothing while it
// writes.
func (t *tenure) set() {
	if t.writing {
		return
	}
	t.writing = true
	var op uint64
	e := t.n.writing(t.c.spec.Lock, &op)
	ctx := &patience{}
	t.n.w.after(t.n, releasePatience, ctx.expire)
	if t.unsettled == 0 {
		t.tell(ctx, op, []byte(e.Value))
		return
	}
	t.n.insist(ctx, t.withdrawal(), func(out fsm.Outcome, known, _ bool) {
		if !known || out.Code == fsm.CodeTooManyRequests {
			t.writing = false
			return
		}
		t.unsettled = 0
		t.tell(ctx, op, []byte(e.Value))
	})
}

// withdrawal is of the write that may still be carried out.
func (t *tenure) withdrawal() fsm.Withdraw {
	s := t.grant.Session()
	return fsm.Withdraw{Session: s.ID(), Acked: s.Acked(), Requests: []uint64{t.unsettled}}
}

func (t *tenure) tell(ctx *patience, op uint64, value []byte) {
	s := t.grant.Session()
	request, acked, err := s.Begin(t.n.now())
	if err != nil {
		t.writing = false
		return
	}
	cmd := fsm.SetValue{
		Session: s.ID(), Request: request, Acked: acked,
		Name: t.grant.Name(), Token: t.token, Value: value,
	}
	t.n.insist(ctx, cmd, func(out fsm.Outcome, known, unknown bool) {
		t.writing = false
		t.wrote(request, op, out, known, unknown)
		t.n.keeper.attend()
	})
}

func (t *tenure) wrote(request, op uint64, out fsm.Outcome, known, unknown bool) {
	s := t.grant.Session()
	_, state := out.Code.Left()
	switch {
	case known && (out.Code == fsm.CodeOK || out.Code == fsm.CodeFinished && unknown): // by an earlier attempt
		s.Finish(request)
		t.n.w.stats.Written++
		t.n.written(t.c.spec.Lock, op)
	case known && (out.Code == fsm.CodeStaleToken || state == fsm.RequestSessionLost): // the group says that it is no holder
		s.Finish(request)
		t.see("forced")
		t.grant.End(session.ErrLost)
	case unknown:
		t.unsettled = request
		t.n.keeper.table.Withdraw(s, request)
	default:
		t.n.keeper.table.Skip(s, request)
	}
}

// look reads who has a lock, and its value, on a node: a linearizable read, as Cluster.Leader and
// Inspect are. One that holds the lock alone from before the reading until after it must be found. Of a
// set all locks are read at once.
func (w *world) look(n *node, locks ...int) {
	var held *tenure
	for _, t := range w.valid[locks[0]] {
		if weight, limit := t.c.spec.share(w.plan.Locks[locks[0]]); weight == limit && t.counts() {
			held = t
		}
	}
	w.ops++
	e := history.Event{Kind: history.Look, Op: w.ops, Node: n.i, Lock: w.lockName(locks[0])}
	elects := w.plan.Locks[locks[0]].Election && len(locks) == 1
	if elects {
		e.Kind = history.Who
	}
	w.record(e)
	ctx := &patience{}
	w.after(n, releasePatience, ctx.expire)
	states := make([]fsm.Lock, len(locks))
	n.read(ctx, func(m *fsm.Machine) {
		for i := range locks {
			states[i], _ = m.Lock(w.lockName(locks[i]))
		}
	}, func() {
		w.stats.Looks++
		for i, l := range states {
			w.looked(e, w.lockName(locks[i]), l, elects)
		}
		if held == nil || held.over || w.plan.Wild || !held.counts() || w.robbed(held.token) {
			return
		}
		if holders := states[0].Holders; len(holders) != 1 || holders[0].Token != held.token {
			w.broken("who leads is found", "%q has holders %v for node %d, node %d has token %d all the time",
				e.Lock, holders, n.i, held.n.i, held.token)
		}
	})
}

func (w *world) looked(e history.Event, name string, l fsm.Lock, elects bool) {
	e.Kind, e.Lock, e.Value, e.Tokens = history.Looked, name, string(l.Value), []uint64{}
	for _, h := range l.Holders {
		e.Tokens = append(e.Tokens, h.Token)
	}
	if elects {
		e.Kind = history.Leads
		if e.Tokens = nil; len(l.Holders) > 0 {
			e.Token = l.Holders[0].Token
		}
	}
	w.record(e)
}

func (n *node) finished(name string) bool {
	key, _ := fsm.OnceKey(name)
	_, done := n.machine.Key(key)
	return done
}

func (t *tenure) announce() {
	w, spec := t.n.w, t.c.spec
	switch {
	case len(t.locks) > 1:
		w.stats.Sets++
	case spec.Lead:
		w.stats.Elections++
	case w.plan.Locks[spec.Lock].Once:
		w.stats.Begun++
		if !t.misled() { // it may be late, and another one have begun
			w.record(t.event(history.Begun))
		}
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
