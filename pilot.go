package holdfast

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/hearing"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	pilotPause = 500 * time.Millisecond // between looks when nothing happens
	hurryPause = 50 * time.Millisecond  // and while somebody waits for it
	pilotTime  = 5 * time.Second        // for one change of the membership
)

// pilot is the raft leader's care for the group: it opens the service once the bootstrap voters are
// there, changes the membership one replica at a time as the autopilot says, and withdraws what
// nodes without a replica wait for.
type pilot struct {
	loop.Loop
	c      *Cluster
	quorum quorum

	leader *hearing.Leader
	plan   atomic.Pointer[autopilot.Plan] // what it wants or waits for, nil while it is not raft leader
}

func newPilot(c *Cluster) *pilot {
	p := &pilot{c: c, quorum: quorum{c: c}, leader: hearing.New(hearing.Config{
		Want: c.cfg.Voters, Moment: c.cfg.Timing.moment(), ReplaceAfter: c.cfg.ReplaceAfter,
		LaterLife: consensus.LaterLife,
	})}
	p.Loop = loop.New(p.look)
	return p
}

// note takes an event of the local apply.
func (p *pilot) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventSilent:
		p.leader.Note(e, p.c.clock.Now())
	case fsm.EventDeparted:
		p.Wake()
	}
}

// look looks after the group while this node is raft leader.
func (p *pilot) look(ctx context.Context) (pause time.Duration) {
	group, _ := p.c.proposer.Current()
	p.quorum.look(group)
	if group == nil || !group.IsRaftLeader() {
		p.leader.Follow()
		p.plan.Store(nil)
		return pilotPause
	}
	if p.step(ctx, group) {
		return 0 // there may be more to do
	}
	if p.leader.Hurry() {
		return hurryPause
	}
	return pilotPause
}

// step does at most one thing and reports whether it did one.
func (p *pilot) step(ctx context.Context, group *consensus.Group) bool {
	ctx, cancel := context.WithTimeout(ctx, pilotTime)
	defer cancel()
	state, now := p.state(group), p.c.clock.Now()
	if state.Info.Born && !state.Info.Serving && state.Complete() {
		out, err := group.Propose(ctx, fsm.Encode(fsm.Serve{}))
		return err == nil && out.Code == fsm.CodeOK
	}
	p.tell(p.leader.News(state, now), state.Cluster)
	if cmd, ok := p.leader.Withdrawal(state, now); ok {
		if _, err := group.Propose(ctx, fsm.Encode(cmd)); err == nil {
			return true
		}
	}
	plan := p.leader.Plan(state, now)
	if last := p.plan.Swap(&plan); plan.Kind == autopilot.Wait && (last == nil || last.Kind != plan.Kind) {
		p.c.log.Info("the membership is not as wanted", "waits", plan.Reason)
	}
	if silent := p.leader.Report(state, plan, now); silent != nil {
		_, _ = group.Propose(ctx, fsm.Encode(silent)) // what is lost is said again
	}
	if plan.Kind <= autopilot.Wait || plan.Kind == autopilot.AddStandby && !p.c.founder.share() {
		return false
	}
	err := p.carryOut(ctx, group, plan)
	p.leader.Carried(plan, outcome(err), group.Members().Change, p.c.clock.Now())
	switch {
	case plan.Kind == autopilot.Barrier:
	case err != nil:
		p.c.log.Warn("changing the membership", "change", plan.Kind, "of", plan.Node, "reason", plan.Reason, "error", err)
	default:
		p.c.log.Info("changed the membership", "change", plan.Kind, "of", plan.Node, "reason", plan.Reason)
	}
	return err == nil
}

// outcome is what the error of a change says of it.
func outcome(err error) hearing.Outcome {
	switch {
	case err == nil:
		return hearing.Done
	case errors.Is(err, consensus.ErrUnknown):
		return hearing.Unknown
	case errors.Is(err, consensus.ErrMembershipChanged):
		return hearing.Refused
	}
	return hearing.Failed
}

// state is what there is to see now.
func (p *pilot) state(group *consensus.Group) hearing.State {
	s := hearing.State{
		Self: p.c.ID(), Cluster: p.c.dir.Identity().ClusterID, Members: group.Members(), Heard: make(map[uint64]hearing.Heard),
		Departed: func(node string) fsm.Departure { return departure(group, node) },
	}
	group.Read(func(m *fsm.Machine) {
		s.Info = m.Info()
		for n := range m.Nodes() {
			s.Known = append(s.Known, n)
		}
	})
	now := p.c.clock.Now()
	for replica, one := range group.Heard() {
		s.Heard[replica] = hearing.Heard{At: now - lease.Instant(max(0, time.Since(one.At))), Match: one.Match}
	}
	phases := map[membership.Phase]hearing.Phase{
		membership.PhaseJoining: hearing.Joins, membership.PhaseStarting: hearing.Runs,
		membership.PhaseRunning: hearing.Runs, membership.PhaseLeaving: hearing.Retires,
	}
	for _, m := range p.c.gossip.Members() {
		s.Seen = append(s.Seen, hearing.Sighting{
			Node: m.Node, Zone: m.Zone, Cluster: m.ClusterID, Replica: m.Replica, Phase: phases[m.Phase], Here: m.Here(),
		})
	}
	return s
}

// tell sends others the news of their replicas.
func (p *pilot) tell(news []hearing.News, cluster string) {
	var messages []forming.Message
	for _, n := range news {
		m := forming.Message{From: p.c.ID(), To: n.Node, Cluster: cluster, Replica: n.Replica, Kind: forming.Removed}
		switch n.Kind {
		case hearing.Welcome:
			m.Kind = forming.Welcome
		case hearing.Let:
			m.Left = true
		case hearing.Copied:
			m.Copied = true
		}
		messages = append(messages, m)
	}
	p.c.founder.send(messages)
}

func (p *pilot) carryOut(ctx context.Context, group *consensus.Group, plan autopilot.Plan) error {
	switch plan.Kind {
	case autopilot.Barrier:
		return group.Barrier(ctx)
	case autopilot.HandOver:
		return group.Transfer(ctx, plan.Node)
	case autopilot.AddStandby:
		return group.AddStandby(ctx, plan.Node, p.leader.Asks(plan.Node), plan.Index)
	case autopilot.Promote:
		return group.Promote(ctx, plan.Node, plan.Index)
	case autopilot.Remove:
		return group.Remove(ctx, plan.Node, plan.Index)
	}
	return nil
}
