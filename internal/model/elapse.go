package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// elapsesMax is the product's flightsMax (timekeeper.go).
const elapsesMax = 64

// noteElapse is elapser.note.
func (n *node) noteElapse(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventResting:
		n.elapses.Resting(fsm.Grant{Name: e.Name, Token: e.Token}, e.TTL, n.now())
		n.wakeElapse()
	case fsm.EventRested:
		n.elapses.Rested(fsm.Grant{Name: e.Name, Token: e.Token})
	case fsm.EventUnfinished:
		n.wakeElapse()
	case fsm.EventReleased:
		if e.Reason == fsm.ReasonFinished {
			n.wakeElapse()
		}
	}
}

// restoreElapses is elapser.restore.
func (n *node) restoreElapses() {
	n.elapses.Reset()
	for r := range n.machine.Rests() {
		n.elapses.Resting(fsm.Grant{Name: r.Name, Token: r.Token}, r.For, n.now())
	}
	n.wakeElapse()
}

// stepElapse is elapser.step: what it lets be proposed is decided in internal/lease. The product's looks at least
// once a second; this one rests while there is nothing to time.
func (n *node) stepElapse() {
	leads := n.raft.role == leading
	rests, next := n.elapses.Rests(n.now(), leads, elapsesMax)
	for _, r := range rests {
		n.attempt(fsm.Encode(r), n.elapsed)
	}
	classes := n.machine.Classes()
	due, more := n.elapses.Turns(n.now(), leads, classes)
	for _, cmd := range due {
		n.attempt(fsm.Encode(cmd), n.elapsed)
	}
	last, left := n.machine.Unfinished()
	step, again := n.elapses.Continues(n.now(), leads, last, left)
	if step {
		n.attempt(fsm.Encode(fsm.Continue{Last: last}), n.elapsed)
	}
	if n.elapses.Len() == 0 && len(classes) == 0 && !left {
		return
	}
	at := min(next, more, again, n.now().Add(expirePause))
	n.set(&n.elapse, max(at, n.now().Add(time.Millisecond)), n.stepElapse)
}

// elapsed is the end of an attempt of the elapser.
func (n *node) elapsed(fsm.Outcome, bool) { n.wakeElapse() }

// wakeElapse lets a voter look at once.
func (n *node) wakeElapse() {
	if n.raft.voter(n.i) {
		n.elapse.planned = 0
		n.set(&n.elapse, n.now(), n.stepElapse)
	}
}

// atLeast is how much true time goes by at least while a clock within the bound that the nodes were told measures d.
func (w *world) atLeast(d time.Duration) time.Duration {
	return max(0, time.Duration(float64(d)/(1+w.plan.Drift/2))-time.Microsecond)
}
