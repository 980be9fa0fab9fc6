package model

import (
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/history"
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

// next makes the next call, if there is one and the faults are not over.
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

// call is Cluster.Acquire and what its caller does with the lease.
type call struct {
	n       *node
	spec    Call
	op      uint64
	then    func() // what the caller does next
	ctx     *patience
	s       *session
	request uint64
	waits   bool   // in the queue
	early   uint64 // the token, if the grant came before the answer that the call is queued
	sent    bool   // away: the Once key that it waits for is finished
	over    bool
	tenure  *tenure // what it came to
	value   uint64  // number of the write that the grant brings
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

// expire is the end of the call's context.
func (c *call) expire() {
	if c.over {
		return
	}
	c.ctx.expire() // a proposal under way ends, and with it the call
	if c.over {
		return
	}
	if c.waits {
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
	c.s = k.session(w.plan.TTLs[c.spec.TTL], c.spec.Manual)
	c.request = c.s.requests.Begin()
	c.s.claims = append(c.s.claims, &claim{request: c.request, call: c})
	k.sending(c.s)
	cmd := fsm.Acquire{
		Session: c.s.id, TTL: c.s.ttl, Request: c.request, Acked: c.s.requests.Lowest(),
		Name: w.lockName(c.spec.Lock), Wait: c.spec.Wait, Priority: c.spec.Priority,
		Mode: c.spec.Mode, Limit: w.plan.Locks[c.spec.Lock].limit(c.spec.Mode), Weight: c.spec.Weight,
		Delay: c.spec.Delay, Election: c.spec.Lead,
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
	k, s := &c.n.keeper, c.s
	open, state := out.Code.Left()
	alive := open && k.opened(s, state == fsm.RequestWaiting)
	switch {
	case (state == fsm.RequestGranted || state == fsm.RequestWaiting) && !alive:
		c.again()
		return
	case state == fsm.RequestSessionLost, out.Code == fsm.CodeUnknownNode:
		s.judged = true
		k.lose(s, true)
	case state != fsm.RequestGranted && state != fsm.RequestWaiting:
		c.giveUp(unknown && state == fsm.RequestUnknown)
	}
	switch out.Code {
	case fsm.CodeGranted:
		if c.spec.Value {
			c.n.written(c.spec.Lock, c.value)
		}
		c.take(out.Token)
	case fsm.CodeQueued:
		c.waits = true
		switch {
		case s.claim(c.request) == nil || c.sent:
			c.woken(0, false)
		case c.early != 0:
			c.woken(c.early, true)
		}
	case fsm.CodeFinished, fsm.CodeSessionLost, fsm.CodeUnknownNode:
		c.again()
	case fsm.CodeDone:
		c.refuse("done")
	default:
		c.refuse(out.Code.String())
	}
}

// dismissed is the local apply of the end of the Once key that the call waits for.
func (c *call) dismissed() {
	c.sent = true
	if c.waits {
		request := c.request
		c.n.w.after(c.n, 0, func() {
			if c.waits && c.request == request {
				c.woken(0, false)
			}
		})
	}
}

// granted is the local apply of the grant that the call waits for. The call itself goes on a little later,
// as another goroutine would.
func (c *call) granted(token uint64) {
	if c.early != 0 {
		return
	}
	c.early = token
	if c.waits {
		request := c.request
		c.n.w.after(c.n, 0, func() {
			if c.waits && c.request == request {
				c.woken(token, true)
			}
		})
	}
}

// woken ends the waiting in the queue: with a grant, or because session or request are over.
func (c *call) woken(token uint64, ok bool) {
	if !c.waits {
		return // the answer to the proposal will tell
	}
	c.waits = false
	if ok && c.spec.Value {
		c.n.written(c.spec.Lock, c.value)
	}
	switch {
	case !ok:
		c.giveUp(false) // the session may live on, and the request alone be over
		c.again()
	case c.s.manual:
		c.n.keeper.handOver(c.s, func() { c.take(token) })
	default:
		c.take(token)
	}
}

// again asks under a new request.
func (c *call) again() {
	c.waits, c.early, c.sent = false, 0, false
	if c.ctx.ended {
		c.refuse("patience ended")
		return
	}
	c.n.w.after(c.n, 0, c.attempt)
}

// take makes the lease of a grant.
func (c *call) take(token uint64) {
	if c.over {
		return
	}
	s := c.s
	cl := s.claim(c.request)
	if s.over || cl == nil || cl.revoked {
		s.abandon(c.request)
		s.finish(c.request)
		c.again()
		return
	}
	t := &tenure{n: c.n, c: c, s: s, token: token, life: c.n.life, granted: c.n.now(), locks: c.spec.locks()}
	cl.tenure, cl.call, c.tenure = t, nil, t
	s.finish(c.request)
	if !c.n.keeper.check(s) {
		c.again()
		return
	}
	c.close()
	t.begin()
}

// giveUp ends a request that leads to no lease; where the group may have it, it is withdrawn.
func (c *call) giveUp(sent bool) {
	s, request := c.s, c.request
	c.waits = false
	s.abandon(request)
	switch {
	case s.manual:
		c.n.keeper.lose(s, false)
	case sent:
		cmd := fsm.Withdraw{Session: s.id, Acked: s.requests.Lowest(), Requests: []uint64{request}}
		c.n.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
			s.finish(request)
			switch open, state := out.Code.Left(); {
			case state == fsm.RequestSessionLost:
				c.n.keeper.lose(s, true)
			case open: // perhaps by a call that never heard so
				c.n.keeper.opened(s, false)
			}
			c.n.keeper.discard(s)
		})
	default:
		s.finish(request)
		c.n.keeper.discard(s)
	}
}

// refuse ends the call without a lease.
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

// gone is the end of the process.
func (c *call) gone() { c.refuse("the process crashed") }

func (c *call) close() {
	c.over = true
	c.n.calls = slices.DeleteFunc(c.n.calls, func(o *call) bool { return o == c })
}
