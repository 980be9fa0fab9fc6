package consensus

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// What was on its way to a raft leader is probably lost with it. It may be in the log all the same,
// before the first entry of the next one: when all of that is applied here, either the answer has
// come or none will. What is on its way to the next raft leader already is asked again, too: the
// state machine recognises it.

const settleEvery = time.Millisecond

// settle closes view.settled when all commands before the raft leader's first entry are applied
// here, or after Config.settling. Before there is a raft leader it does nothing.
func (g *Group) settle(view *leaderView) {
	if view.replica == 0 {
		return
	}
	g.shunned.Store(nil)
	running := g.carrier.Run(func() {
		defer close(view.settled)
		end := time.After(g.cfg.settling())
		look := time.NewTicker(settleEvery)
		defer look.Stop()
		for done := false; !done; {
			done = g.appliedBefore(view.term) // answers follow at once
			select {
			case <-look.C:
			case <-end:
				return
			case <-g.carrier.Context().Done():
				return
			}
		}
	})
	if !running {
		close(view.settled)
	}
}

// appliedBefore reports whether this replica has applied all commands before the first entry of a
// term, and knows that entry to be committed.
func (g *Group) appliedBefore(term uint64) bool {
	turn, applied := g.turns.Last(), uint64(0)
	if turn.Term < term || g.cfg.Figures.Committed.Load() < turn.First {
		return false
	}
	g.machine.read(func(state *fsm.Machine) { applied = state.Applied() })
	return applied >= turn.Before
}
