package model

import (
	"bytes"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// What must be done in time once all faults are over.
const (
	resumeElections = 40               // every node serves within this many election timeouts
	resumeMore      = 2 * time.Second  // and this
	rejoinMax       = 10 * time.Second // and this, if it may have to come in again first
	lateMax         = 2 * time.Second  // the product's bound on lateness, fail-over included
)

// restMax is how long after ReplaceAfter the membership is as wanted.
const restMax = 30 * time.Second

func (w *world) resumeMax() time.Duration {
	d := resumeElections*w.plan.Election + resumeMore
	if w.plan.Planned {
		d += rejoinMax
	}
	return d
}

// heal ends all faults and demands service: every node takes and releases a lock of its own, then
// every node takes every lock whole, and then everything that was held is free and nothing is left
// of it.
func (w *world) heal() {
	w.healed, w.healedAt, w.unserved = true, w.now, len(w.nodes) // nothing is finished before all are back
	w.tell("all faults end")
	w.record(history.Event{Kind: history.Over})
	for _, n := range w.nodes { // each as the faults have left it
		w.recoverEarly(n)
	}
	for i := range w.links {
		w.links[i] = link{}
	}
	w.disturbed = 0
	for _, n := range w.living() {
		n.downs, n.pauses, n.ills, n.lag, n.hangs = 0, 0, 0, 0, 0
		if n.stood.freezes > 0 {
			n.thaw(w.now - n.stood.since)
		}
		rate := n.clock.rate
		if w.plan.Wild {
			rate = 1
		}
		switch {
		case n.leaving:
			w.depart(n, -1)
		case !n.up:
			n.start()
		case n.paused:
			n.resume()
		}
		w.clock(n, rate, 0)
		n.unpark()
	}
	w.oust()
	w.health()
	from := w.now
	living, bounded := w.living(), slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.Kind == Bound })
	w.unserved = len(living)
	for _, n := range living {
		w.serve(n, from)
		if bounded {
			w.unbind(n)
		}
	}
	w.after(nil, 2*w.resumeMax()+40*(w.plan.longest()+w.plan.longestRest())+10*w.keptMax(w.plan.longestKeep()), func() {
		w.broken("what was begun comes to an end", "%d callers and %d nodes wait for something still", w.callers, w.unserved)
	})
}

func (w *world) whole(n *node, lock int, patience time.Duration) Call {
	c := Call{Caller: -1, Asker: -1, Node: n.i, Lock: lock, Wait: true, Patience: patience}
	switch k := w.plan.Locks[lock]; {
	case k.Permits > 0:
		c.Mode, c.Weight = fsm.Permit, k.Permits
	case k.Once:
		c.Keep = time.Millisecond
	}
	return c
}

func (w *world) serve(n *node, from time.Duration) {
	grants := w.stats.Grants
	own := len(w.plan.Locks) - len(w.nodes) + n.i
	n.call(w.whole(n, own, w.resumeMax()), func() {
		if n.retired {
			w.unserved--
			w.finish()
			return
		}
		if w.now-from >= w.resumeMax() {
			w.broken("service resumes after the faults", "node %d did not serve for %v", n.i, w.now-from)
			return
		}
		if w.stats.Grants == grants {
			w.serve(n, from)
			return
		}
		w.record(history.Event{Kind: history.Served, Node: n.i})
		w.stats.Resumed = max(w.stats.Resumed, w.now-from)
		w.unserved--
		w.finish()
	})
}

func (w *world) finish() {
	if w.healed && w.callers == 0 && w.unserved == 0 && !w.finishing {
		w.finishing = true
		w.takeAll(0)
	}
}

func (w *world) takeAll(i int) {
	locks := len(w.plan.Locks) - len(w.nodes)
	if i == locks*len(w.nodes) {
		rest := 3 * w.plan.longest()
		if w.plan.Planned {
			rest = max(rest, w.healedAt+w.plan.ReplaceAfter+restMax-w.now)
		}
		w.after(nil, rest, func() {
			w.draining = true
			w.after(nil, 10*w.plan.Election, w.drained)
		})
		return
	}
	n, lock := w.nodes[i%len(w.nodes)], i/len(w.nodes)
	if n.retired {
		w.takeAll(i + 1)
		return
	}
	until := w.now + w.plan.longest() + w.plan.longestRest() + w.lateMax()
	if w.plan.Locks[lock].Once {
		until = w.now + w.keptMax(w.plan.longestKeep())
	}
	w.takeOne(n, lock, until, func() { w.takeAll(i + 1) })
}

// takeOne takes one lock, or runs one Once key. A key that is finished must be forgotten by then,
// and whoever holds a lock of permits as an exclusive one, so that the others are refused, be gone. A dead
// runner of such a key may have begun just before the end of the faults, and all clocks may be slow.
func (w *world) takeOne(n *node, lock int, until time.Duration, then func()) {
	grants := w.stats.Grants
	longest := w.plan.longest()
	n.call(w.whole(n, lock, longest+w.slack(longest)+w.plan.longestRest()+lateMax), func() {
		switch {
		case w.stats.Grants > grants, n.retired: // it had said that it leaves, and hears now that it was let go
			then()
		case w.now < until:
			w.after(nil, w.plan.Election/4, func() { w.takeOne(n, lock, until, then) })
		default:
			w.broken("nothing is stuck", "%q cannot be had on node %d at the end", w.lockName(lock), n.i)
		}
	})
}

// keptMax is how long a Once key may be remembered that is to be kept for a time, where a majority
// is well: its class is longer by a sixteenth, and each of its turns waits for an entry of the log
// or, if the raft leader's replica lags behind, for another node to propose it.
func (w *world) keptMax(keep time.Duration) time.Duration {
	entry := w.plan.Election + 4*(w.plan.Net.Delay+w.plan.Net.Jitter+w.plan.Sync)
	return keep + keep/8 + (keep/fsm.OncePeriod(keep)+3)*entry + w.lateMax()
}

// lateMax is the bound on lateness with the time that some elections in a row may need.
func (w *world) lateMax() time.Duration { return lateMax + 10*w.plan.Election }

// drained looks for what is left when nobody wants anything any more.
func (w *world) drained() {
	w.over = true
	w.atRest()
	var state []byte
	living := w.living()
	for _, n := range living {
		info := n.machine.Info()
		if info.Grants+info.Waiters+info.Sessions+info.Rests+info.Keys+len(n.machine.Classes()) > 0 {
			w.broken("nothing is left over", "node %d has %d grants, %d waiters, %d sessions, %d rests, %d Once keys",
				n.i, info.Grants, info.Waiters, info.Sessions, info.Rests, info.Keys)
		}
		if sessions := len(n.keeper.table.All()); sessions+len(n.pending)+n.queue.Len()+n.times.Rests()+len(n.leads)+n.keeper.cleaners > 0 {
			w.broken("nothing is left over", "node %d keeps %d sessions, %d proposals, %d rests, %d candidates, %d debts",
				n.i, sessions, len(n.pending), n.times.Rests(), len(n.leads), n.keeper.cleaners)
		}
		if n.applied != living[0].applied {
			w.broken("replicas agree", "node %d has applied %d entries, node %d %d", n.i, n.applied, living[0].i, living[0].applied)
			return
		}
		if got := w.imageAt(n); state == nil {
			state = got
		} else if !bytes.Equal(got, state) {
			w.broken("replicas agree", "at the end node %d has another state than node %d", n.i, living[0].i)
		}
	}
}

// servedAgain asks who serves of the nodes that live.
func (w *world) servedAgain(h []history.Event, b history.Bounds) []history.Violation {
	return history.ServedAgain(slices.DeleteFunc(slices.Clone(h), func(e history.Event) bool {
		return (e.Kind == history.Well || e.Kind == history.Ill) && w.nodes[e.Node].retired
	}), b)
}

func (w *world) judge() {
	slack := time.Duration(w.plan.Drift * float64(w.plan.longest()))
	bounds := history.Bounds{
		TTL: w.plan.longest() + slack, Late: lateMax, Answer: releasePatience + time.Second, Resume: w.resumeMax(),
		Drift: w.plan.Drift,
	}
	checks := []func([]history.Event, history.Bounds) []history.Violation{
		history.Tokens, w.servedAgain, history.Values, history.NeverInPart,
	}
	if !w.plan.Wild {
		checks = append(checks, history.RunOnce, history.MutualExclusion, history.NothingEarly, history.NothingForgotten,
			history.ReadsAreCurrent, history.Rests)
	}
	if w.plan.Gentle {
		// Not history.NotLate: a holder on an ill node may go on renewing, and the model's holders
		// do not say so between grant and release. How late an expiry comes is measured by the
		// renewals themselves, see watch.go.
		checks = append(checks, history.NoHealthyHolderLoses)
	}
	var found []history.Violation
	for _, check := range checks {
		found = append(found, check(w.history, bounds)...)
	}
	if len(found) > 0 {
		first := slices.MinFunc(found, func(a, b history.Violation) int { return int(a.At - b.At) })
		w.fail = &Violation{first.At, first.Rule, first.String()}
	}
}
