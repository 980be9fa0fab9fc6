package model

import (
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/fsm"
)

// quota is what an operator bounds with a fault of kind Bound: Fault.Other, or each node, or the locks of a
// prefix.
type quota struct {
	Each                            bool   `json:",omitempty"`
	Prefix                          string `json:",omitempty"`
	Locks, Waiters, Sessions, Value uint32
}

// bounds are the quotas of a plan: small ones, so that many calls meet them.
func (p *Plan) bounds(r *rand.Rand) (list []Fault) {
	names := lockNames(p.Locks)
	for range 1 + r.IntN(8) {
		f := Fault{
			Kind: Bound, At: ms(r, 0, int(p.Duration.Milliseconds())), For: ms(r, 100, 20_000), Node: r.IntN(p.Nodes), Other: r.IntN(p.Nodes),
			Quota: &quota{Locks: pick[uint32](r, 0, 1, 2, 4), Waiters: pick[uint32](r, 0, 1, 2), Value: pick[uint32](r, 0, 0, 1)},
		}
		switch r.IntN(3) {
		case 0:
			f.Quota.Prefix = pick(r, names...)
		case 1:
			f.Quota.Each = true
			fallthrough
		default:
			f.Quota.Sessions = pick[uint32](r, 0, 1, 2)
		}
		list = append(list, f)
	}
	return list
}

// bound lets an operator on a node set a quota, or remove it, as Cluster.SetQuota does.
func (w *world) bound(f Fault, by int) {
	n := w.nodes[f.Node]
	if !n.up || n.paused {
		return
	}
	cmd := fsm.SetQuota{Quota: fsm.Quota{Prefix: f.Quota.Prefix}, Reason: "operator"}
	if f.Quota.Prefix == "" && !f.Quota.Each {
		cmd.Node = w.nodes[f.Other].id
	}
	if by > 0 {
		cmd.Locks, cmd.Waiters, cmd.Sessions, cmd.Value = f.Quota.Locks, f.Quota.Waiters, f.Quota.Sessions, f.Quota.Value
	}
	n.read(nil, func(m *fsm.Machine) { cmd.Seen = m.Commands() }, func() {
		if by < 0 || !w.healed {
			n.insist(nil, cmd, func(fsm.Outcome, bool, bool) {})
		}
	})
}

// unbind removes all quotas through a node. The first of its commands makes those of before void.
func (w *world) unbind(n *node) {
	cmd := fsm.SetQuota{Reason: "operator"}
	left := 0
	n.read(nil, func(m *fsm.Machine) {
		cmd.Seen = m.Commands()
		cmd.Quota, left = someQuota(m)
	}, func() {
		n.insist(nil, cmd, func(out fsm.Outcome, known, _ bool) {
			if known && (out.Code == fsm.CodeFinished || left > 1) {
				w.unbind(n)
			}
		})
	})
}

// someQuota is the one to be removed next, without bounds, and how many there are.
func someQuota(m *fsm.Machine) (q fsm.Quota, n int) {
	list := m.Answer(fsm.QueryQuotas{}).(fsm.QuotasState).Quotas
	if len(list) > 0 {
		q = fsm.Quota{Node: list[0].Node, Prefix: list[0].Prefix}
	}
	return q, len(list)
}
