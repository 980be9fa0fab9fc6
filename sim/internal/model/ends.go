package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/loop"
)

// proposeEnds is what the product's Timekeeper does with the table that both run: what is due is
// proposed once, and the end of the attempt lets it look again. Only a replica that votes proposes.
func (n *node) proposeEnds() {
	next := n.now().Add(expiry.PauseMax)
	if n.members.votes(n.i) {
		var due []fsm.Command
		due, next = n.times.Step(func(look func(*fsm.Machine)) { look(n.machine) }, n.now(), n.raft.role == leading)
		for _, cmd := range due {
			if end, ok := cmd.(fsm.Expire); ok && n.w.trace != nil {
				n.w.tell("node %d proposes the end of session %s, renewed at %d", n.i, brief(end.Session), end.Renewed)
			}
			n.attempt(fsm.Encode(cmd), func(fsm.Outcome, bool) { n.wakeEnds() })
		}
	}
	n.set(&n.ends, max(next, n.now().Add(loop.PauseMin)), n.proposeEnds)
}

// wakeEnds lets the node look at once at what is over.
func (n *node) wakeEnds() {
	n.ends.planned = 0
	n.set(&n.ends, n.now(), n.proposeEnds)
}

// atLeast is how much true time goes by at least while a clock within the bound that the nodes were
// told measures d.
func (w *world) atLeast(d time.Duration) time.Duration {
	return max(0, time.Duration(float64(d)/(1+w.plan.Drift/2))-time.Microsecond)
}
