package model

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/batch"
)

// read looks at the state when an entry of its own is applied: everything that was committed before is, too.
// then is called if that happens before ctx ends.
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

// attempt brings a command to the raft leader that this node knows. The outcome comes from this node's own
// replica. After one and a half of the longest election timeout, or soon after there is a new raft leader,
// it is unknown.
func (n *node) attempt(cmd []byte, done func(fsm.Outcome, bool)) bool {
	r, by := &n.raft, fsm.Process{Node: n.id, Incarnation: n.incarnation}
	if r.leader < 0 {
		return false
	}
	n.w.attempts++
	id := n.w.attempts
	if done != nil {
		n.pending[id] = &attempt{done: done}
		n.w.after(n, 3*n.w.plan.Election, func() { n.giveUp(id) })
	}
	if r.role == leading {
		r.propose(id, by, cmd)
		return true
	}
	leader := n.w.nodes[r.leader]
	n.w.send(n.i, r.leader, func() { leader.raft.propose(id, by, cmd) })
	return true
}

// giveUp ends an attempt that got no answer.
func (n *node) giveUp(id uint64) {
	if a := n.pending[id]; a != nil {
		delete(n.pending, id)
		n.w.stats.Unknown++
		a.done(fsm.Outcome{}, false)
	}
}

// unsettle lets the attempts that were sent to an earlier raft leader end soon.
func (n *node) unsettle() {
	for _, id := range slices.Sorted(maps.Keys(n.pending)) {
		if a := n.pending[id]; !a.lost {
			a.lost = true
			n.w.after(n, n.w.plan.Election/settling, func() { n.giveUp(id) })
		}
	}
}

// answer gives an applied entry's outcome to who proposed it.
func (n *node) answer(id uint64, out fsm.Outcome) {
	if a := n.pending[id]; a != nil {
		delete(n.pending, id)
		// Not from within the apply: the product answers another goroutine.
		n.w.after(n, 0, func() { a.done(out, true) })
	}
}

// insistence is proposer.insist: the same command again until its outcome is known or its context ends.
type insistence struct {
	n       *node
	cmd     []byte
	ctx     *patience
	done    func(out fsm.Outcome, known, unknown bool)
	tries   int
	unknown bool
	before  bool                     // unknown before the attempt that is under way
	waits   *batch.Call[*insistence] // that it travels with others; nil: it does not wait for that
	over    bool
	resting bool
}

// patience is a context: it can end.
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

// insist proposes until there is an outcome (known) or ctx ends; unknown says that an attempt may have
// been applied without an answer. A nil ctx never ends.
func (n *node) insist(ctx *patience, cmd fsm.Command, done func(out fsm.Outcome, known, unknown bool)) {
	n.insistOn(ctx, fsm.Encode(cmd), done)
}

// insistOn is insist with a command that is encoded.
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
	if x.waits != nil {
		x.n.line.Leave(x.waits)
	}
	if x.ctx != nil {
		x.ctx.end = nil
	}
	x.done(out, known, x.unknown)
}

func (x *insistence) try() {
	if x.over {
		return
	}
	if fsm.Travels(x.cmd) {
		if !x.n.line.Begin() {
			x.waits = &batch.Call[*insistence]{Cmd: x.cmd, Of: x}
			x.n.line.Wait(x.waits)
			return
		}
		x.n.fly(x.cmd, []*insistence{x}, x.n.land)
		return
	}
	x.n.fly(x.cmd, []*insistence{x}, func() {})
}

// land is together.land of internal/consensus: what waits goes in one entry.
func (n *node) land() {
	calls := n.line.End()
	if len(calls) == 0 {
		return
	}
	cmd, all := fsm.AppendBatch(nil), make([]*insistence, len(calls))
	for i, c := range calls {
		cmd, all[i], c.Of.waits = fsm.AppendToBatch(cmd, c.Cmd), c.Of, nil
	}
	if len(calls) == 1 {
		cmd = calls[0].Cmd
	}
	n.fly(cmd, all, n.land)
}

// fly proposes an entry with the commands of all of these, once. Then each has its answer, or is to try again.
func (n *node) fly(cmd []byte, all []*insistence, landed func()) {
	for _, x := range all {
		x.before, x.unknown = x.unknown, true // from here on it may be applied without an answer
	}
	sent := n.attempt(cmd, func(out fsm.Outcome, known bool) {
		for i, x := range all {
			if len(out.Each) > 0 {
				x.landed(out.Each[i], known)
			} else {
				x.landed(out, known)
			}
		}
		landed()
	})
	if sent {
		return
	}
	for _, x := range all {
		x.unknown = x.before
		x.rest()
	}
	landed()
}

// landed takes the outcome of an attempt.
func (x *insistence) landed(out fsm.Outcome, known bool) {
	x.unknown = x.before
	switch {
	case !known:
		x.unknown = true
		x.rest()
	case out.Code == fsm.CodeNotServing:
		x.rest()
	default:
		x.finish(out, true)
	}
}

// pause is one rest of an insistence.
type pause struct {
	x     *insistence
	tries int
}

// end lets the insistence go on, if it still rests there.
func (p pause) end() {
	if x := p.x; !x.over && x.resting && x.tries == p.tries {
		x.resting = false
		x.try()
	}
}

// rest waits a little, longer after more attempts, and less if the raft leader changes.
func (x *insistence) rest() {
	if x.over {
		return
	}
	d := min(5*time.Millisecond<<min(x.tries, 8), 500*time.Millisecond)
	x.tries++
	x.resting = true
	p := pause{x, x.tries}
	x.n.changed = append(x.n.changed, p)
	luck := x.n.w.chance(3, uint64(x.n.i), uint64(x.n.w.now), uint64(x.tries))
	x.n.w.after(x.n, d/2+within(luck, d/2), p.end)
}
