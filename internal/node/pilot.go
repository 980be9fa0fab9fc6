package node

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/loop"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	pilotPause = 500 * time.Millisecond // between two polls
	hurryPause = 50 * time.Millisecond  // and while a node waits for the next change
	pilotTime  = 5 * time.Second        // for one change of the membership
)

// pilot runs on each node, and acts while its replica is raft leader: it opens the service once the
// bootstrap voters have joined, changes the membership one replica at a time as the autopilot plans,
// and withdraws the waiters of nodes without a replica.
type pilot struct {
	loop.Loop
	n     *Node
	drift drift

	answers           answers
	welcomes, clients words

	leader *autopilot.Leader

	mu       sync.Mutex
	news     map[newsKey]news // what the local replica has applied since, the last of each kind and node
	skipped  bool             // a part of the log was taken over from a snapshot, before news
	removals map[*removal]bool

	members   atomic.Pointer[[]autopilot.Member] // as last judged, while this node is raft leader
	ill       map[string]bool                    // the voters whose illness is logged
	plan      atomic.Pointer[autopilot.Plan]     // the last one, nil while this node is not raft leader
	waits     time.Time                          // since when the plan is to wait; zero: it is not
	told      bool                               // a line of the log has said so
	rise      atomic.Pointer[string]             // what the next feature level waits for, as plan
	levels    sparse.Lines                       // of that
	recovered lease.Instant                      // since when this node knows that its group was recovered and waits
	former    string                             // that group
}

// news is an event about a node's replica, and when it was applied.
type news struct {
	event fsm.Event
	at    lease.Instant
}

type newsKey struct {
	kind  fsm.EventKind
	heard bool // of EventSilent: that the node is heard again
	node  fsm.Node
}

func newPilot(n *Node) *pilot {
	p := &pilot{n: n, news: make(map[newsKey]news), removals: make(map[*removal]bool), ill: make(map[string]bool), leader: autopilot.New(autopilot.Config{
		Want: n.cfg.Voters, Standbys: max(n.cfg.Replicas-n.cfg.Voters, 0), Moment: n.cfg.Moment, Patience: n.patience(), ReplaceAfter: n.cfg.ReplaceAfter,
		LaterLife: consensus.LaterLife,
		Level:     n.knows(), HoldLevel: n.cfg.HoldLevel, LevelPause: cmp.Or(n.cfg.Env.LevelPause, autopilot.LevelPauseDefault),
	})}
	p.levels = sparse.Lines{Most: 1, Period: levelPeriod}
	p.Loop = loop.New(p.poll)
	return p
}

// note records an event that the local replica has applied.
func (p *pilot) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventSilent, fsm.EventEvict:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.news[newsKey{e.Kind, e.Kind == fsm.EventSilent && e.TTL == 0, e.Session.Node}] = news{*e, p.n.clock.Now()}
		if e.Kind == fsm.EventEvict {
			for r := range p.removals {
				r.note(e)
			}
			p.Wake()
		}
	case fsm.EventDeparted:
		p.Wake()
	case fsm.EventServing:
		p.n.Proposer.Wake() // the callers that wait for the service
	}
}

// skip records that the replica took over its state from a snapshot.
func (p *pilot) skip() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.news, p.skipped = make(map[newsKey]news), true
}

// hear passes the events that the replica has applied to the leader.
func (p *pilot) hear() {
	p.mu.Lock()
	all, skipped := p.news, p.skipped
	p.news, p.skipped = make(map[newsKey]news), false
	p.mu.Unlock()
	if skipped {
		p.leader.Skipped()
	}
	for _, s := range all {
		p.leader.Note(&s.event, s.at)
	}
}

// poll changes the group while this node is raft leader. One whose engine stands still, and that hears no
// majority, plans nothing and judges nobody.
func (p *pilot) poll(ctx context.Context) (pause time.Duration) {
	group, _ := p.n.Proposer.Current()
	p.n.tellLevel(group)
	named := group != nil && group.IsRaftLeader() // by the engine
	if !named {
		p.leader.Follow()
		clear(p.ill)
	}
	if !named || !p.n.leads(group) {
		p.plan.Store(nil)
		p.rise.Store(nil)
		p.members.Store(nil)
		return pilotPause
	}
	if text := p.drift.poll(p.n.gossip.Members(), time.Now()); text != "" {
		p.n.log.Warn("nodes are configured otherwise than the raft leader", "nodes", text)
	}
	if p.step(ctx, group) {
		return 0 // another step may follow
	}
	if p.leader.Hurry() {
		return hurryPause
	}
	return pilotPause
}

// step proposes at most one change, and reports whether it did.
func (p *pilot) step(ctx context.Context, group *consensus.Group) bool {
	ctx, cancel := context.WithTimeout(ctx, pilotTime)
	defer cancel()
	state, now := p.state(group), p.n.clock.Now()
	p.hear()
	if state.Info.Born && !state.Info.Serving && p.leader.Complete(state) && p.waited(&state) {
		out, err := group.Propose(ctx, fsm.Encode(fsm.Serve{}))
		return err == nil && out.Code == fsm.CodeOK
	}
	p.n.founder.say(&p.welcomes, p.leader.News(state, now))
	if cmd, ok := p.leader.Withdrawal(state, now); ok {
		if _, err := group.Propose(ctx, fsm.Encode(cmd)); err == nil {
			return true
		}
	}
	plan := p.leader.Plan(state, now)
	p.plan.Store(&plan)
	p.n.founder.say(&p.clients, p.leader.Clients(state, plan))
	p.answers.seek(p.n, p.leader.Probes())
	members := p.leader.Members()
	p.members.Store(&members)
	p.warnOfIll()
	p.logWait(plan)
	if silent := p.leader.Report(state, plan, now); silent != nil {
		_, err := group.Propose(ctx, fsm.Encode(silent)) // a lost one is proposed again
		return err == nil                                // the plan is older by that: a silent voter may be heard by now
	}
	if refusal := p.leader.Refusal(state, plan, now); refusal != nil {
		if _, err := group.Propose(ctx, fsm.Encode(*refusal)); err == nil {
			p.n.log.Warn("refused an operator's order to remove a node", "target", p.n.described(refusal.Node.String()), "because", refusal.Refusal.String())
		}
	}
	if p.raiseLevel(ctx, group, state, now) || p.raiseTTL(ctx, group, state) {
		return true
	}
	if plan.Kind <= autopilot.Wait || plan.Kind == autopilot.AddStandby && !p.n.founder.share() {
		return false
	}
	err := p.carryOut(ctx, group, plan)
	p.leader.Carried(plan, outcome(err), group.Members().Change, p.n.clock.Now())
	switch {
	case plan.Kind == autopilot.Barrier, errors.Is(err, context.Canceled): // the node closes
	case err != nil:
		p.n.log.Warn("changing the membership failed", "change", plan.Kind.String(), "of", p.n.described(plan.Node), "reason", plan.Reason, "error", err)
	default:
		p.n.log.Info("changed the membership", "change", plan.Kind.String(), "of", p.n.described(plan.Node), "reason", plan.Reason)
	}
	return err == nil
}

// logWait logs once what the raft leader waits for, after a while: a fleet that forms has its voters
// before that. A single node that is to join no other would wait all its life, and logs nothing.
func (p *pilot) logWait(plan autopilot.Plan) {
	single := p.n.dir.Identity().Alone() && len(p.n.cfg.Join) == 0
	switch now := time.Now(); {
	case plan.Kind != autopilot.Wait || single:
		p.waits, p.told = time.Time{}, false
	case p.waits.IsZero():
		p.waits = now
	case !p.told && now.Sub(p.waits) >= waitTold:
		p.told = true
		p.n.log.Info("waiting before changing the membership", "waits", plan.Reason)
	}
}

// outcome is what the error of a change means for the plan.
func outcome(err error) autopilot.Outcome {
	switch {
	case err == nil:
		return autopilot.Done
	case errors.Is(err, consensus.ErrUnknown):
		return autopilot.Unknown
	case errors.Is(err, consensus.ErrMembershipChanged):
		return autopilot.Refused
	}
	return autopilot.Failed
}

// state is what the leader plans by.
func (p *pilot) state(group *consensus.Group) autopilot.State {
	s := autopilot.State{
		Self: p.n.ID(), Cluster: p.n.dir.Identity().ClusterID, Members: group.Members(), Heard: make(map[uint64]autopilot.Heard),
		Departed: func(node string) fsm.Departure { return departure(group, node) },
		Renewed: func(node fsm.Node, incarnation uint64) (last uint64) {
			group.Read(func(m *fsm.Machine) { last = m.Renewed(node, incarnation) })
			return last
		},
	}
	group.Read(func(m *fsm.Machine) {
		s.Info = m.Info()
		for known := range m.Nodes() {
			s.Known = append(s.Known, known)
		}
	})
	now := p.n.clock.Now()
	for replica, one := range group.Heard() {
		ago := func(t time.Time) lease.Instant { return now - lease.Instant(max(0, time.Since(t))) }
		s.Heard[replica] = autopilot.Heard{At: ago(one.At), Match: one.Match, Snapshot: ago(one.Snapshot)}
	}
	_, s.Term, _ = group.RaftLeader()
	for _, m := range p.n.gossip.Members() {
		s.Seen = append(s.Seen, autopilot.Sighting{
			Node: m.Node, Zone: m.Zone, Cluster: m.ClusterID, Replica: m.Replica, Phase: m.Phase, Level: m.Level, Here: m.Here(),
			Able: m.Able, Client: m.Client, Unfit: m.Unfit, Name: m.Name, Addr: m.Addr, Answers: p.answers.lately(m),
		})
	}
	return s
}

// raiseTTL raises the group's bound on TTLs to what the nodes that are its clients may ask for, as they
// cannot, and reports whether it did.
func (p *pilot) raiseTTL(ctx context.Context, group *consensus.Group, state autopilot.State) bool {
	longest := state.Info.MaxTTL
	for _, m := range p.n.clientsHere() {
		longest = max(longest, min(m.Settings.MaxTTL, fsm.TTLMax).Truncate(time.Millisecond))
	}
	if state.Info.MaxTTL == 0 || longest == state.Info.MaxTTL {
		return false
	}
	out, err := group.Propose(ctx, fsm.Encode(fsm.RaiseTTL{TTL: longest}))
	return err == nil && out.Code == fsm.CodeOK
}

func (p *pilot) carryOut(ctx context.Context, group *consensus.Group, plan autopilot.Plan) error {
	on := consensus.Basis{Change: plan.Index, Term: plan.Term}
	switch plan.Kind {
	case autopilot.Barrier:
		return group.Barrier(ctx)
	case autopilot.HandOver:
		return group.Transfer(ctx, plan.Node)
	case autopilot.AddStandby:
		return group.AddStandby(ctx, plan.Node, p.leader.Asks(plan.Node), on)
	case autopilot.Promote:
		return group.Promote(ctx, plan.Node, on)
	case autopilot.Remove:
		return group.Remove(ctx, plan.Node, on)
	}
	return nil
}
