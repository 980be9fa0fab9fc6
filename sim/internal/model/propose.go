package model

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// read looks at the state when an entry of its own is applied: everything that was committed before
// is, too. then is called if that happens before ctx ends.
func (n *node) read(ctx *patience, look func(*fsm.Machine), then func()) {
	n.insist(ctx, fsm.Level{}, func(_ fsm.Outcome, known, _ bool) {
		if known {
			look(n.machine)
			then()
		}
	})
}

// settling is consensus.Config.settling as a part of the election timeout.
const settling = 10

// attempt is consensus.Group.Propose: a command on its way to the log, once.
type attempt struct {
	done func(out fsm.Outcome, known bool) // nil: nobody waits
	lost bool                              // the raft leader that it was sent to may be gone
}

// attempt brings a command to the raft leader that this node knows. The outcome comes from this
// node's own replica. After one and a half of the longest election timeout, or soon after there is
// a new raft leader, it is unknown.
func (n *node) attempt(cmd []byte, done func(fsm.Outcome, bool)) bool {
	return !n.asks && n.bring(cmd, done)
}

// bring is attempt, also of a node whose replica has not caught up.
func (n *node) bring(cmd []byte, done func(fsm.Outcome, bool)) bool {
	return n.launch(entry{cmd: cmd}, done)
}

func (n *node) reshape(ch *change, done func(fsm.Outcome, bool)) bool {
	return n.raft.role == leading && n.raft.term == ch.term && n.launch(entry{conf: ch}, done)
}

func (n *node) launch(e entry, done func(fsm.Outcome, bool)) bool {
	r := &n.raft
	if r.leader < 0 {
		return false
	}
	n.w.attempts++
	id := n.w.attempts
	e.id, e.at, e.by = id, n.w.now, n.process()
	if done != nil {
		n.pending[id] = &attempt{done: done}
		n.w.after(n, 3*n.w.plan.Election, func() { n.giveUp(id) })
	}
	if n.hangs > 0 {
		n.park(func() { n.relay(e) })
	} else {
		n.relay(e)
	}
	return true
}

// relay proposes an entry, or sends it to the raft leader, as the engine does. What it has kept for long may
// find another raft leader, or none; a change of the membership is void then.
func (n *node) relay(e entry) {
	switch r := &n.raft; {
	case r.role == leading:
		if e.conf == nil || e.conf.term == r.term {
			r.propose(e)
		}
	case e.conf == nil && r.leader >= 0 && !n.silent:
		n.forward(r.leader, func(leader *raft) { leader.propose(e) })
	}
}

func (n *node) giveUp(id uint64) {
	if a := n.pending[id]; a != nil {
		delete(n.pending, id)
		if !n.ousted {
			n.w.stats.Unknown++
		}
		a.done(fsm.Outcome{}, false)
	}
}

func (n *node) unsettle() {
	for _, id := range slices.Sorted(maps.Keys(n.pending)) {
		if a := n.pending[id]; !a.lost {
			a.lost = true
			n.w.after(n, n.w.plan.Election/settling, func() { n.giveUp(id) })
		}
	}
}

func (n *node) answer(id uint64, out fsm.Outcome) {
	if a := n.pending[id]; a != nil {
		delete(n.pending, id)
		// Not from within the apply: the product answers another goroutine.
		n.w.after(n, 0, func() { a.done(out, true) })
	}
}

// insistence is proposer.Insist: the same command again until its outcome is known or its context
// ends. What follows an attempt is decided in internal/retry.
type insistence struct {
	n        *node
	cmd      []byte
	ctx      *patience
	done     func(out fsm.Outcome, known, unknown bool)
	course   retry.Course
	rests    int
	underway bool                     // an attempt is under way
	call     *batch.Call[*insistence] // its command in the queue, or in an entry with others; nil: it is in none
	over     bool
	resting  bool
}

type patience struct {
	ended bool
	end   func() // what its end interrupts
}

func (p *patience) expire() {
	if p.ended {
		return
	}
	p.ended = true
	if p.end != nil {
		p.end()
	}
}

// insist proposes until there is an outcome (known) or ctx ends; unknown says that an attempt may
// have been applied without an answer. A nil ctx never ends.
func (n *node) insist(ctx *patience, cmd fsm.Command, done func(out fsm.Outcome, known, unknown bool)) {
	n.insistOn(ctx, fsm.Encode(cmd), done)
}

func (n *node) insistOn(ctx *patience, cmd []byte, done func(out fsm.Outcome, known, unknown bool)) {
	x := &insistence{n: n, cmd: cmd, ctx: ctx, done: done}
	if ctx != nil {
		ctx.end = func() { x.finish(fsm.Outcome{}, false) }
		if ctx.ended {
			x.finish(fsm.Outcome{}, false)
			return
		}
	}
	x.try()
}

func (x *insistence) finish(out fsm.Outcome, known bool) {
	if x.over {
		return
	}
	x.over = true
	if x.call != nil {
		x.n.queue.Remove(x.call)
	}
	if x.ctx != nil {
		x.ctx.end = nil
	}
	if x.underway {
		x.course.After(retry.Unknown, 0)
	}
	x.done(out, known, x.course.Unknown())
}

func (x *insistence) try() {
	if x.over {
		return
	}
	if fsm.Travels(x.cmd) {
		if !x.n.queue.Begin() {
			x.call = &batch.Call[*insistence]{Cmd: x.cmd, Cost: x.n.machine.Cost(x.cmd), Of: x}
			x.n.queue.Push(x.call)
			x.n.startNext()
			return
		}
		x.n.propose(x.cmd, []*insistence{x}, func([]*batch.Call[*insistence]) {
			x.n.queue.Alone()
			x.n.startNext()
		})
		return
	}
	x.n.propose(x.cmd, []*insistence{x}, func([]*batch.Call[*insistence]) {})
}

// startNext is Group.next of internal/consensus: commands that wait share an entry, if it may start.
func (n *node) startNext() {
	e := n.queue.Next()
	calls := e.Calls
	if len(calls) == 0 {
		return
	}
	cmd, all := fsm.AppendBatch(nil), make([]*insistence, len(calls))
	for i, c := range calls {
		cmd, all[i] = fsm.AppendToBatch(cmd, c.Cmd), c.Of
	}
	if len(calls) == 1 {
		cmd = calls[0].Cmd
	}
	n.propose(cmd, all, func(later []*batch.Call[*insistence]) {
		n.queue.End(e, later)
		n.startNext()
	})
}

// propose proposes an entry with the commands of all of these, once. Then each has its answer, tries
// again, or goes before all that wait.
func (n *node) propose(cmd []byte, all []*insistence, completed func(later []*batch.Call[*insistence])) {
	for _, x := range all {
		x.underway = true // from here on it may be applied without an answer
	}
	sent := n.attempt(cmd, func(out fsm.Outcome, known bool) {
		result := retry.Unknown
		if known {
			result = retry.Answered
		}
		var later []*batch.Call[*insistence]
		for i, x := range all {
			own := out
			if len(out.Each) > 0 {
				own = out.Each[i]
			}
			if own.Code == fsm.CodeLater {
				x.underway, later = false, append(later, x.call)
				continue
			}
			x.take(result, own)
		}
		completed(later)
	})
	if sent {
		return
	}
	for _, x := range all {
		x.take(retry.NotSent, fsm.Outcome{})
	}
	completed(nil)
}

func (x *insistence) take(result retry.Result, out fsm.Outcome) {
	x.underway = false
	if x.course.After(result, out.Code) {
		x.rest()
	} else {
		x.finish(out, true)
	}
}

type pause struct {
	x    *insistence
	rest int
}

func (p pause) end() {
	if x := p.x; !x.over && x.resting && x.rests == p.rest {
		x.resting = false
		x.try()
	}
}

// rest waits a little, longer after more attempts, and less if the raft leader changes.
func (x *insistence) rest() {
	if x.over {
		return
	}
	x.rests++
	x.resting = true
	p := pause{x, x.rests}
	x.n.changed = append(x.n.changed, p)
	luck := x.n.w.chance(3, uint64(x.n.i), uint64(x.n.w.now), uint64(x.rests))
	x.n.w.after(x.n, x.course.Pause(fraction(luck)), p.end)
}
