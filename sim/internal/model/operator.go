package model

import (
	"strconv"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// force lets an operator take a lock from whoever has it, as far as the node knows.
func (w *world) force(n *node, by int) {
	if by < 0 || !n.up || n.paused {
		return
	}
	for l := range n.machine.Locks("") {
		if len(l.Holders) > 0 {
			cmd := fsm.ForceRelease{Name: l.Name, Token: l.Holders[0].Token, Reason: "operator"}
			w.ops++
			e := history.Event{Kind: history.Force, Op: w.ops, Node: n.i, Lock: l.Name, Token: cmd.Token}
			w.record(e)
			n.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
				e.Kind, e.OK = history.Forced, out.Code == fsm.CodeOK
				w.record(e)
			})
			return
		}
	}
}

// revoke lets an operator on another node end all that a node holds and waits for, as
// Cluster.RevokeNode does: whatever has become of it, and of the former processes on its disk.
func (w *world) revoke(n, other *node, by int) {
	if by < 0 || !other.up || other.paused {
		return
	}
	w.ops++
	e := history.Event{Kind: history.Revoke, Op: w.ops, Node: other.i, Value: n.name()}
	w.record(e)
	cmd := fsm.Revoke{Node: n.id, Reason: "operator"}
	other.read(nil, func(m *fsm.Machine) { cmd.Upto = m.Commands() }, func() {
		other.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
			e.Kind, e.OK = history.Revoked, out.Code == fsm.CodeOK
			w.record(e)
		})
	})
}

// name is what the history calls the node.
func (n *node) name() string { return strconv.Itoa(n.i) }

// robbed says whether an operator has taken a grant, by its token or with all that its node held.
// Its holder hears of it later.
func (w *world) robbed(token uint64) bool {
	g := w.shadow.grants[token]
	return g.forced || w.revoked(g.session)
}

// revoked says whether an operator has ended a session with all that its node held. Its node hears
// of it with a later step.
func (w *world) revoked(id fsm.SessionID) bool {
	a := w.shadow.sessions[id]
	return a != nil && a.doomed == fsm.ReasonRevoked
}
