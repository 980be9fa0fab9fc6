package model

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// caller makes its calls one after the other, whatever becomes of them.
type caller struct {
	w    *world
	todo []Call
}

func newCaller(w *world, i int) *caller {
	c := &caller{w: w}
	for _, call := range w.plan.Calls {
		if call.Caller == i {
			c.todo = append(c.todo, call)
		}
	}
	return c
}

func (c *caller) next() {
	if len(c.todo) == 0 || c.w.healed {
		c.w.callers--
		c.w.finish()
		return
	}
	spec := c.todo[0]
	c.todo = c.todo[1:]
	c.w.after(nil, spec.At-c.w.now, func() {
		n := c.w.nodes[spec.Node]
		if !n.up || n.paused || c.w.healed {
			c.next()
			return
		}
		if spec.Lead {
			n.lead(spec, c.next)
			return
		}
		n.call(spec, c.next)
	})
}

type call struct {
	n      *node
	spec   Call
	op     uint64
	then   func() // what the caller does next
	ctx    *patience
	ask    session.Call
	news   *news // of its present request
	asking bool  // for what is neither granted nor over
	waits  bool  // in the queue
	over   bool
	tenure *tenure // what it came to
	value  uint64  // number of the write that the grant brings
}

// news is where a call hears of the first thing that comes while it waits in the queue.
type news struct {
	c     *call
	told  bool
	token uint64
	err   error
}

// Granted tells the call its token.
func (x *news) Granted(token uint64) { x.hear(token, nil) }

// Over tells the call that it has nothing to wait for.
func (x *news) Over(err error) { x.hear(0, err) }

func (x *news) hear(token uint64, err error) {
	if x.told {
		return
	}
	x.told, x.token, x.err = true, token, err
	if x.c.waits && errors.Is(err, session.ErrExpired) {
		x.c.evicted(x.c.ask.Session)
	}
	x.c.n.w.after(x.c.n, 0, x.wake) // as another goroutine would
}

func (x *news) wake() {
	if x.told && x.c.waits && x.c.news == x {
		x.c.woken(x.token, x.err)
	}
}

func (n *node) call(spec Call, then func()) *call {
	w := n.w
	w.ops++
	w.stats.Calls++
	c := &call{n: n, spec: spec, op: w.ops, then: then, ctx: &patience{}}
	n.calls = append(n.calls, c)
	e := c.event(history.Asked)
	e.Wait, e.Until = spec.Wait, w.now+spec.Patience
	e.Weight, e.Limit = spec.share(w.plan.Locks[spec.Lock])
	e.Priority, e.MinHold, e.LockDelay, e.Election = int(spec.Priority), spec.MinHold, spec.Delay, spec.Lead
	if spec.Others != 0 {
		for _, l := range spec.locks()[1:] {
			e.Others = append(e.Others, w.lockName(l))
		}
	}
	w.record(e)
	if w.trace != nil {
		w.tell("node %d: call %d asks for %q, %s", n.i, c.op, w.lockName(spec.Lock), spec.brief())
	}
	w.after(n, spec.Patience, c.expire)
	if n.joined {
		c.attempt()
	} else {
		n.arrived = append(n.arrived, c.attempt)
	}
	return c
}

func (c *call) event(kind history.Kind) history.Event {
	return history.Event{Kind: kind, Op: c.op, Node: c.n.i, Lock: c.n.w.lockName(c.spec.Lock)}
}

func (c *call) expire() {
	if c.over {
		return
	}
	c.ctx.expire() // a proposal under way ends, and with it the call
	if c.over {
		return
	}
	if c.waits {
		c.waits = false
		c.giveUp(true)
	}
	c.refuse("patience ended")
}

// attempt asks under one request number of one session.
func (c *call) attempt() {
	if c.over {
		return
	}
	k, w := &c.n.keeper, c.n.w
	if w.plan.Locks[c.spec.Lock].Once && c.n.finished(w.lockName(c.spec.Lock)) {
		c.refuse("done") // as the node's own replica knows
		return
	}
	c.news = &news{c: c}
	ask, err := k.table.Ask(w.plan.TTLs[c.spec.TTL], c.spec.Manual, c.news, c.n.now())
	if err != nil {
		c.refuse(err.Error())
		return
	}
	c.ask, c.asking = ask, true
	k.asked(c)
	cmd := fsm.Acquire{
		Session: ask.Session.ID(), TTL: ask.Session.TTL(), Request: ask.Request, Acked: ask.Acked,
		Name: w.lockName(c.spec.Lock), Wait: c.spec.Wait, Terms: fsm.Terms{
			Priority: c.spec.Priority, Mode: c.spec.Mode, Limit: w.plan.Locks[c.spec.Lock].limit(c.spec.Mode),
			Weight: c.spec.Weight, Delay: c.spec.Delay, Election: c.spec.Lead,
		},
	}
	if c.spec.Others != 0 {
		for _, l := range c.spec.locks()[1:] {
			cmd.Others = append(cmd.Others, w.lockName(l))
		}
	}
	if c.spec.Value {
		e := c.n.writing(c.spec.Lock, &c.value)
		cmd.HasValue, cmd.Value = true, []byte(e.Value)
	}
	c.n.insist(c.ctx, cmd, func(out fsm.Outcome, known, unknown bool) {
		if !known {
			c.giveUp(unknown)
			c.refuse("no answer")
			return
		}
		c.answered(out, unknown)
	})
}

// answered is Cluster.proceed: what a call does with an outcome.
func (c *call) answered(out fsm.Outcome, unknown bool) {
	c.n.keeper.explain(c.ask.Lost(out)...)
	next := c.ask.Answered(out, unknown, c.n.now())
	c.asking = next == session.Take || next == session.Wait
	c.n.keeper.attend()
	switch {
	case next == session.Take:
		if c.spec.Value {
			c.n.written(c.spec.Lock, c.value)
		}
		c.take(out.Token)
	case next == session.Wait:
		c.waits = true
		c.n.w.after(c.n, 0, c.news.wake)
	case next == session.Again:
		c.again()
	case out.Code == fsm.CodeUnknownNode: // the group has forgotten this node
		hello := fsm.Hello{Node: c.n.id, Incarnation: c.n.incarnation, Name: "n", Place: c.n.place()}
		c.n.insist(c.ctx, hello, func(fsm.Outcome, bool, bool) { c.again() })
	case out.Code == fsm.CodeDone:
		c.refuse("done")
	default:
		c.refuse(out.Code.String())
	}
}

// woken is Cluster.await: it ends the waiting in the queue with a grant, or because session or
// request are over.
func (c *call) woken(token uint64, err error) {
	c.waits = false
	if err != nil {
		c.giveUp(false) // the session may live on, and the request alone be over
		c.again()
		return
	}
	if c.spec.Value {
		c.n.written(c.spec.Lock, c.value)
	}
	if c.spec.Manual {
		c.n.keeper.handOver(c.ask.Session, c.ctx, func() { c.take(token) })
		return
	}
	c.take(token)
}

func (c *call) again() {
	if c.ctx.ended {
		c.refuse("patience ended")
		return
	}
	c.n.w.after(c.n, 0, c.attempt)
}

func (c *call) take(token uint64) {
	c.asking = false
	t := &tenure{n: c.n, c: c, token: token, life: c.n.life, locks: c.spec.locks()}
	terms := session.Terms{MinHold: c.spec.MinHold, MaxHold: c.spec.MaxHold, Delay: c.spec.Delay}
	taken := c.ask.Take(&t.grant, t, c.n.w.lockName(c.spec.Lock), token, terms, c.n.now())
	c.n.keeper.attend()
	if !taken {
		c.again()
		return
	}
	c.tenure = t
	c.close()
	t.begin()
}

func (c *call) giveUp(sent bool) {
	c.asking = false
	c.ask.GiveUp(sent)
	c.n.keeper.attend()
}

func (c *call) refuse(cause string) {
	if c.over {
		return
	}
	c.close()
	e := c.event(history.Refused)
	e.Cause, e.Until = cause, c.n.w.now
	c.n.w.record(e)
	if c.n.w.trace != nil {
		c.n.w.tell("node %d: call %d gets nothing: %s", c.n.i, c.op, cause)
	}
	c.then()
}

func (c *call) gone() { c.refuse("the process crashed") }

func (c *call) close() {
	c.over = true
	c.n.calls = slices.DeleteFunc(c.n.calls, func(o *call) bool { return o == c })
}
