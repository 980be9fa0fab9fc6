package model

import (
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// The product's (internal/node/pilot.go).
const (
	pilotPause = 500 * time.Millisecond
	hurryPause = 50 * time.Millisecond
	pilotTime  = 5 * time.Second
)

// clumsyMax is how late a change of the membership is made at most, in plans that like it so.
const clumsyMax = 3 * time.Second

// pilot carries out what internal/autopilot decides, as internal/node does.
type pilot struct {
	n      *node
	leader *autopilot.Leader
	timer  uint64  // counts the looks that were planned: the last one counts
	busy   bool    // something is being carried out
	doing  *change // that, if it is a change
	plan   autopilot.Plan
	taken  []time.Duration // by node: when its replica had last taken what it was sent, at a look
}

// replica is the id of a replica, and replicaIDOf the way back.
func (s replicaID) replica() uint64 { return s.life<<8 | uint64(s.node+1) }

func replicaIDOf(replica uint64) replicaID { return replicaID{int(replica&0xff) - 1, replica >> 8} }

func (p *pilot) begin(n *node) {
	w := n.w
	*p = pilot{n: n, taken: make([]time.Duration, w.plan.Nodes), leader: autopilot.New(autopilot.Config{
		Want: w.plan.Voters, Standbys: w.plan.Standbys, Moment: autopilot.MomentDefault, ReplaceAfter: w.plan.ReplaceAfter,
		LaterLife: func(_ string, known, next uint64) bool { return next>>8 > known>>8 },
	})}
	if w.plan.Planned {
		p.again(0)
	}
}

func (p *pilot) again(pause time.Duration) {
	p.timer++
	timer := p.timer
	p.n.w.after(p.n, pause, func() {
		if timer == p.timer {
			p.look()
		}
	})
}

func (p *pilot) wake() {
	if p.n.w.plan.Planned && !p.busy {
		p.again(0)
	}
}

func (p *pilot) look() {
	switch n := p.n; {
	case n.ousted:
	case n.w.draining: // or it would say who is silent for ever
	case n.raft.role != leading:
		p.leader.Follow()
		n.gossip()
		p.again(pilotPause)
	default:
		p.step()
	}
}

func (p *pilot) step() {
	n := p.n
	s, now := p.state(), n.now()
	for _, news := range p.leader.News(s, now) {
		n.post(replicaIDOf(news.Replica).node, func(other *node) { other.hears(news) })
	}
	if cmd, ok := p.leader.Withdrawal(s, now); ok {
		p.busy = n.attempt(fsm.Encode(cmd), func(fsm.Outcome, bool) { p.done(0) })
		if p.busy {
			return
		}
	}
	p.plan = p.leader.Plan(s, now)
	if silent := p.leader.Report(s, p.plan, now); silent != nil {
		n.attempt(fsm.Encode(silent), nil)
	}
	switch {
	case p.plan.Kind > autopilot.Wait:
		p.carryOut()
	case p.leader.Hurry():
		p.again(hurryPause)
	default:
		p.again(pilotPause)
	}
}

func (p *pilot) done(pause time.Duration) {
	p.busy, p.doing = false, nil
	p.again(pause)
}

func (p *pilot) state() autopilot.State {
	n := p.n
	s := autopilot.State{
		Self: n.id.String(), Cluster: "group", Info: n.machine.Info(), Members: n.w.named(n.members), Seen: n.sees(),
		Heard: make(map[uint64]autopilot.Heard), Term: n.raft.term,
		Departed: func(node string) fsm.Departure {
			id, _ := fsm.ParseNode(node)
			return n.machine.Departed(id)
		},
		Renewed: n.machine.Renewed,
	}
	for one := range n.machine.Nodes() {
		s.Known = append(s.Known, one)
	}
	for i, at := range n.raft.said {
		if at > 0 && n.raft.conf.has(i) {
			p.taken[i] = max(p.taken[i], n.raft.took[i])
			ago := lease.Instant(float64(n.w.now-at) * n.clock.rate)
			s.Heard[n.raft.peer(i).replica()] = autopilot.Heard{At: n.now() - ago, Match: n.raft.match[i]}
		}
	}
	return s
}

func (w *world) named(c *config) autopilot.Members {
	m := autopilot.Members{Voters: make(map[uint64]string), Standbys: make(map[uint64]string), Change: c.index}
	for i, n := range w.nodes {
		switch {
		case c.votes(i):
			m.Voters[replicaID{i, c.lives[i]}.replica()] = n.id.String()
		case c.has(i):
			m.Standbys[replicaID{i, c.lives[i]}.replica()] = n.id.String()
		}
	}
	return m
}

func (p *pilot) carryOut() {
	n, w, plan := p.n, p.n.w, p.plan
	p.busy = true
	if w.trace != nil {
		w.tell("node %d: %v of %s: %s", n.i, plan.Kind, plan.Node[:min(8, len(plan.Node))], plan.Reason)
	}
	switch plan.Kind {
	case autopilot.Barrier:
		p.barrier(func(passed bool) {
			out := autopilot.Unknown
			if passed {
				out = autopilot.Done
			}
			p.carried(plan, out)
		})
		return
	case autopilot.HandOver:
		p.transfer(plan)
		return
	}
	id, _ := fsm.ParseNode(plan.Node)
	who := n.raft.peer(int(id[0]) - 1)
	if plan.Kind == autopilot.AddStandby {
		who = replicaIDOf(p.leader.Asks(plan.Node))
	}
	ch := &change{
		kind: plan.Kind, who: who, on: plan.Index, term: plan.Term, at: w.now, lets: n.machine.Departed(id) != fsm.Stays,
		heard: p.taken[who.node], said: w.heardOf[who.node],
		stuck: w.now-n.raft.said[who.node] < w.plan.ReplaceAfter/2 && w.now-p.taken[who.node] > w.plan.ReplaceAfter/2,
	}
	p.doing = ch
	late, luck := time.Duration(0), w.chance(9, uint64(n.i), uint64(w.now))
	if w.plan.Clumsy && !w.healed && luck%4 == 0 {
		late = within(mix(luck, 1), clumsyMax)
	}
	if w.plan.Frail && ch.kind == autopilot.Promote && mix(luck, 5)%4 == 0 {
		w.after(nil, within(mix(luck, 6), late), func() {
			if !w.healed {
				w.die(w.nodes[who.node])
			}
		})
	}
	w.after(n, late, func() {
		if w.plan.Clumsy && mix(luck, 2)%4 == 0 {
			w.after(n, within(mix(luck, 4), clumsyMax), func() { n.reshape(ch, nil) })
		}
		p.ask(ch, func(out autopilot.Outcome) {
			if w.plan.Clumsy && mix(luck, 3)%8 == 0 {
				out = autopilot.Unknown
			}
			p.carried(plan, out)
		})
	})
}

func (p *pilot) carried(plan autopilot.Plan, out autopilot.Outcome) {
	p.leader.Carried(plan, out, p.n.members.index, p.n.now())
	pause := pilotPause
	if out == autopilot.Done {
		pause = 0
	}
	p.done(pause)
}

func (p *pilot) barrier(then func(passed bool)) {
	ctx := &patience{}
	p.n.w.after(p.n, pilotTime, ctx.expire)
	p.n.insist(ctx, fsm.Level{}, func(_ fsm.Outcome, known, _ bool) { then(known) })
}

func (p *pilot) transfer(plan autopilot.Plan) {
	n, w := p.n, p.n.w
	id, _ := fsm.ParseNode(plan.Node)
	n.raft.send(n.raft.peer(int(id[0])-1), func(other *raft) {
		if other.voter() && other.role != leading {
			other.campaign()
		}
	})
	w.after(n, w.plan.Election, func() {
		out := autopilot.Failed
		if n.raft.role != leading {
			out = autopilot.Done
		}
		p.carried(plan, out)
	})
}

// ask makes one attempt at a change, and looks again if its outcome is not known, as
// consensus.Group does.
func (p *pilot) ask(ch *change, then func(autopilot.Outcome)) {
	n := p.n
	before := n.members
	done := func(c *config) bool {
		switch ch.kind {
		case autopilot.AddStandby:
			return c.includes(ch.who)
		case autopilot.Promote:
			return c.includes(ch.who) && c.votes(ch.who.node)
		}
		return !c.includes(ch.who)
	}
	if done(before) {
		then(autopilot.Done)
		return
	}
	sent := n.reshape(ch, func(out fsm.Outcome, known bool) {
		switch {
		case known && out.Code == fsm.CodeOK:
			then(autopilot.Done)
		case known:
			then(autopilot.Refused)
		default:
			p.barrier(func(passed bool) {
				switch {
				case !passed:
					then(autopilot.Unknown)
				case done(n.members):
					then(autopilot.Done)
				case n.members.index != before.index:
					then(autopilot.Refused)
				default:
					then(autopilot.Unknown)
				}
			})
		}
	})
	if !sent {
		then(autopilot.Failed)
	}
}
