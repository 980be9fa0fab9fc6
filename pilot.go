package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/forming"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/membership"
)

const (
	pilotPause  = 500 * time.Millisecond // between looks when nothing happens
	pilotTime   = 5 * time.Second        // for one change of the membership
	stableAfter = time.Second            // a non-voter must have been well for so long to be promoted
	refusedTime = 30 * time.Second       // a candidate that the group refused is left alone for so long
	goneTime    = 2 * time.Second        // a node must have had no replica for so long to be forgotten
)

// pilot is the raft leader's care for the group: it opens the service once the bootstrap voters are there, changes the
// membership one replica at a time as the autopilot says, and forgets nodes that are gone.
type pilot struct {
	loop
	c *Cluster

	// Only the goroutine of run uses these.
	well    map[string]lease.Instant // since when a replica has been alive and caught up
	ill     map[string]lease.Instant // since when it has not been alive
	gone    map[string]lease.Instant // since when a known node has had no replica
	stray   map[string]lease.Instant // since when a member that runs one has had none
	refused map[string]lease.Instant
}

func newPilot(c *Cluster) *pilot {
	p := &pilot{c: c, well: make(map[string]lease.Instant), ill: make(map[string]lease.Instant)}
	p.loop = newLoop(p.look)
	p.reset()
	return p
}

// watch notes on every node since when the replicas are well or ill, as all replicas time all sessions: where raft
// leaders change more often than a failed voter is replaced, none ever would be if each began to count anew.
func (p *pilot) watch(group *consensus.Group) {
	p.reset()
	if group == nil {
		return
	}
	members := group.Members()
	in := p.input(members, true, departed(group, members))
	alive := 0
	for _, r := range in.Voters {
		if r.Alive || r.Node == in.Self {
			alive++
		}
	}
	if 2*alive <= len(in.Voters) { // it may be this node that is cut off
		p.ill = make(map[string]lease.Instant)
	}
}

// reset forgets what means nothing to a later time as raft leader.
func (p *pilot) reset() {
	p.gone, p.stray = make(map[string]lease.Instant), make(map[string]lease.Instant)
	p.refused = make(map[string]lease.Instant)
}

// look looks after the group while this node is raft leader, else only at it.
func (p *pilot) look(ctx context.Context) (pause time.Duration) {
	group, _ := p.c.proposer.current()
	if group == nil || !group.IsRaftLeader() {
		p.watch(group)
		return pilotPause
	}
	if p.step(ctx, group) {
		return 0 // there may be more to do
	}
	return pilotPause
}

// step does at most one thing and reports whether it did one.
func (p *pilot) step(ctx context.Context, group *consensus.Group) bool {
	ctx, cancel := context.WithTimeout(ctx, pilotTime)
	defer cancel()
	var info fsm.Info
	var known []fsm.NodeRecord
	group.Read(func(m *fsm.Machine) {
		info = m.Info()
		for n := range m.Nodes() {
			known = append(known, n)
		}
	})
	members := group.Members()
	if info.Born && !info.Serving && complete(info, members) {
		out, err := group.Propose(ctx, fsm.Encode(fsm.Serve{}))
		return err == nil && out.Code == fsm.CodeOK
	}
	p.write(members)
	if p.forget(ctx, group, members, known) {
		return true
	}
	in := p.input(members, info.Serving, departed(group, members))
	if !info.Serving {
		in.Want = max(in.Want, int(info.Voters))
	}
	change := autopilot.Next(in)
	if change.Kind == autopilot.None {
		return false
	}
	err := p.carryOut(ctx, group, members, change)
	if err != nil {
		if ctx.Err() == nil {
			p.refused[change.Node] = p.c.clock.Now()
		}
		p.c.log.Warn("changing the membership", "change", change.Kind, "of", change.Node, "reason", change.Reason, "error", err)
		return false
	}
	p.c.log.Info("changed the membership", "change", change.Kind, "of", change.Node, "reason", change.Reason)
	return true
}

// complete reports whether the group may serve its first lock: as many nodes have met in it as its founder wanted, and
// as many of them vote. It is the group's to say, not the Config of the node that happens to be raft leader.
func complete(info fsm.Info, members consensus.Members) bool {
	return len(members.Voters) >= int(info.Voters) && len(members.Voters)+len(members.NonVoters) >= int(info.Bootstrap)
}

// write tells the nodes that the group has given a replica to start it, and those that it has removed that they
// are out: while they were away, or as they wished, since the last that Raft sends to a replica may be the
// entry that removes it, without the news that it is committed. They are told again until their gossip
// shows that they have heard.
func (p *pilot) write(members consensus.Members) {
	id := p.c.dir.Identity()
	now := p.c.clock.Now()
	var messages []forming.Message
	for _, m := range p.c.gossip.Members() {
		if !m.Here() || m.ClusterID != id.ClusterID {
			continue
		}
		started := m.Phase == membership.PhaseStarting || m.Phase == membership.PhaseRunning
		in := members.Has(m.Node)
		stray := since(p.stray, m.Node, started && !in, now) >= goneTime || m.Phase == membership.PhaseLeaving && !in
		message := forming.Message{From: id.NodeID, To: m.Node, Cluster: id.ClusterID}
		switch {
		case in && m.Phase == membership.PhaseJoining:
			message.Kind = forming.Welcome
		case stray:
			message.Kind = forming.Dismiss
		default:
			continue
		}
		messages = append(messages, message)
	}
	p.c.founder.send(messages)
}

func (p *pilot) carryOut(ctx context.Context, group *consensus.Group, members consensus.Members, change autopilot.Change) error {
	switch change.Kind {
	case autopilot.AddNonVoter:
		return group.AddNonVoter(ctx, change.Node, members.Change)
	case autopilot.Promote:
		return group.Promote(ctx, change.Node, members.Change)
	case autopilot.Remove:
		return group.Remove(ctx, change.Node, members.Change)
	}
	return nil
}

// forget ends what a node that has no replica any more has left in the state: at most one node a call.
func (p *pilot) forget(ctx context.Context, group *consensus.Group, members consensus.Members, known []fsm.NodeRecord) bool {
	now := p.c.clock.Now()
	for _, n := range known {
		node := n.Node.String()
		if since(p.gone, node, !members.Has(node), now) < goneTime {
			continue
		}
		_, err := group.Propose(ctx, fsm.Encode(fsm.Forget{Node: n.Node, Incarnation: forEver}))
		return err == nil
	}
	return false
}

// input is what the autopilot goes by: the membership as applied here, and what gossip tells of each node.
func (p *pilot) input(members consensus.Members, serving bool, departed map[string]bool) autopilot.Input {
	now := p.c.clock.Now()
	id := p.c.dir.Identity()
	in := autopilot.Input{Self: id.NodeID, Want: p.c.cfg.Voters}
	if serving {
		in.StableAfter = stableAfter
	}
	seen := make(map[string]membership.Member)
	for _, m := range p.c.gossip.Members() {
		seen[m.Node] = m
	}
	for _, node := range members.Voters {
		in.Voters = append(in.Voters, p.replica(node, seen[node], departed[node], now))
		seen[node] = membership.Member{}
	}
	for _, node := range members.NonVoters {
		in.NonVoters = append(in.NonVoters, p.replica(node, seen[node], departed[node], now))
		seen[node] = membership.Member{}
	}
	for node, m := range seen {
		if at, ok := p.refused[node]; ok && now-at < lease.Instant(refusedTime) {
			continue
		}
		if m.Here() && m.Phase == membership.PhaseJoining && m.ClusterID == id.ClusterID {
			in.Candidates = append(in.Candidates, autopilot.Candidate{Node: node, Zone: m.Zone})
		}
	}
	return in
}

// replica describes one replica to the autopilot and notes since when it has been so.
func (p *pilot) replica(node string, m membership.Member, departed bool, now lease.Instant) autopilot.Replica {
	alive := m.Here() && !departed
	r := autopilot.Replica{
		Node: node, Zone: m.Zone, Alive: alive,
		CaughtUp: alive && (m.Phase == membership.PhaseRunning || m.Phase == membership.PhaseLeaving),
		Left:     departed || m.State == membership.Left || m.Phase == membership.PhaseLeaving,
	}
	r.Stable = since(p.well, node, r.CaughtUp, now)
	r.Failed = since(p.ill, node, !alive, now)
	return r
}

// since answers for how long something has been so without a break.
func since(begun map[string]lease.Instant, node string, so bool, now lease.Instant) time.Duration {
	if !so {
		delete(begun, node)
		return 0
	}
	at, ok := begun[node]
	if !ok {
		begun[node], at = now, now
	}
	return time.Duration(now - at)
}
