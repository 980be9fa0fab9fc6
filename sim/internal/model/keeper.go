package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/session"
)

// The product's (keeper.go).
const (
	cleaners   = 4
	cleanPause = 100 * time.Millisecond
)

// keeper runs internal/session with the time of the model, and its way to the group. It decides
// nothing.
type keeper struct {
	n        *node
	table    *session.Table
	luck     uint64
	timer    timer
	cleaners int                 // debts that are being paid
	most     map[uint64]validity // by session: what the commands leave it that the group is known to have of it
}

func (k *keeper) begin(n *node) {
	*k = keeper{n: n, luck: n.w.chance(4, uint64(n.i), n.incarnation), most: make(map[uint64]validity)}
	k.table = session.New(n.w.plan.Drift, func() float64 {
		k.luck = mix(k.luck, 1)
		return fraction(k.luck)
	})
	k.table.Identify(fsm.Process{Node: n.id, Incarnation: n.incarnation})
}

// attend sees to what the table asks for after a call of one of its methods, and to what must hold
// of it.
func (k *keeper) attend() {
	if k.table.Urgent() {
		k.wake()
	}
	if k.cleaners < cleaners && k.table.Owes() {
		k.cleaners++
		k.n.w.after(k.n, 0, k.clean)
	}
	k.sound()
}

func (k *keeper) wake() {
	k.timer.planned = 0
	k.n.set(&k.timer, k.n.now(), k.step)
}

func (k *keeper) step() {
	now := k.n.now()
	work := k.table.Step(now)
	for _, keepalive := range work.Keepalives {
		k.keepalive(keepalive)
	}
	k.attend()
	if !work.Idle && work.Next != lease.Never && !k.table.Urgent() {
		k.n.set(&k.timer, max(work.Next, now.Add(time.Millisecond)), k.step)
	}
}

func (k *keeper) keepalive(keepalive session.Keepalive) {
	if k.n.w.trace != nil {
		k.n.w.tell("node %d renews %v", k.n.i, keepalive.Command.Sessions)
	}
	k.keeps(keepalive.Command)
	sent := validity{k.n.now(), k.n.lost()}
	took := k.n.attempt(fsm.Encode(keepalive.Command), func(out fsm.Outcome, known bool) {
		if known {
			k.renewed(keepalive, sent, out)
		} else {
			k.table.Unanswered(keepalive)
		}
	})
	if !took {
		k.table.Unanswered(keepalive)
	}
}

// renewed takes the outcome of a keepalive, and looks at all leases that last longer by it.
func (k *keeper) renewed(keepalive session.Keepalive, sent validity, out fsm.Outcome) {
	k.confirmed(keepalive.Command, sent, out)
	k.explain(keepalive.Lost(out)...)
	k.table.Answered(keepalive, out, k.n.now())
	k.attend()
	for _, t := range k.n.tenures {
		k.n.w.exclude(t)
	}
}

// explain asks why the group has ended sessions.
func (k *keeper) explain(lost ...*session.Session) {
	if len(lost) == 0 {
		return
	}
	if err := k.table.Explain(claimsOf(k.n.machine), lost...); err != nil {
		panic(err)
	}
}

// claimsOf asks a state, which answers always.
func claimsOf(m *fsm.Machine) session.Ask {
	return func(q fsm.QueryClaims) (fsm.ClaimsState, error) {
		answer, _ := q.Read(m.Answer(q))
		return answer, nil
	}
}

// renew renews the session of a manual lease now, with this TTL, until the outcome is known or ctx
// ends.
func (k *keeper) renew(s *session.Session, ttl time.Duration, ctx *patience, then func()) {
	sent := validity{k.n.now(), k.n.lost()}
	keepalive := k.table.Retiming(sent.until, s, ttl)
	k.attend()
	k.n.insist(ctx, keepalive.Command, func(out fsm.Outcome, known, _ bool) {
		if known {
			k.renewed(keepalive, sent, out)
		}
		if known && out.Code == fsm.CodeFinished {
			k.renew(s, ttl, ctx, then)
			return
		}
		then()
	})
}

// handOver leaves the renewal of a manual session to its caller.
func (k *keeper) handOver(s *session.Session, ctx *patience, then func()) {
	k.renew(s, s.TTL(), ctx, func() {
		k.table.HandOver(s, k.n.now())
		k.attend()
		then()
	})
}

func (k *keeper) clean() {
	d := k.table.Owed()
	if d == nil {
		k.cleaners--
		return
	}
	k.pay(d)
}

func (k *keeper) pay(d *session.Debt) {
	cmd := d.Command()
	switch {
	case cmd != nil:
		k.n.insist(nil, cmd, func(out fsm.Outcome, _, _ bool) {
			k.explain(d.Lost(out)...)
			d.Paid(out, k.n.now())
			k.attend()
			k.pay(d)
		})
	case d.Refused():
		k.n.w.after(k.n, cleanPause, func() {
			d.Again()
			k.clean()
		})
	default:
		k.clean()
	}
}

// note is observer.Applied for the node's own sessions.
func (k *keeper) note(events []fsm.Event) {
	if len(events) == 0 {
		return
	}
	for i := range events {
		k.table.Note(&events[i])
	}
	k.attend()
	if slices.ContainsFunc(events, func(e fsm.Event) bool { return e.Session.Node == k.n.id }) {
		k.n.told()
	}
}

func (k *keeper) restore(m *fsm.Machine) {
	if err := k.table.Restore(claimsOf(m)); err != nil {
		panic(err)
	}
	k.attend()
	k.n.told()
}

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

func (n *node) wakeEnds() {
	n.ends.planned = 0
	n.set(&n.ends, n.now(), n.proposeEnds)
}

// atLeast is how much true time goes by at least while a clock within the bound that the nodes were
// told measures d.
func (w *world) atLeast(d time.Duration) time.Duration {
	return max(0, time.Duration(float64(d)/(1+w.plan.Drift/2))-time.Microsecond)
}
