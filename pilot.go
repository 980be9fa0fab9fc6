package holdfast

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
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
	hurryPause  = 50 * time.Millisecond  // and while somebody waits for it
	pilotTime   = 5 * time.Second        // for one change of the membership
	stableAfter = time.Second            // a standby must have been well for so long to be promoted
	refusedTime = 30 * time.Second       // a candidate that the group refused is left alone for so long
	goneTime    = 2 * time.Second        // a node must have had no replica for so long to wait for nothing
)

// pilot is the raft leader's care for the group: it opens the service once the bootstrap voters are there, changes the
// membership one replica at a time as the autopilot says, and withdraws what nodes without a replica wait for.
type pilot struct {
	loop
	c      *Cluster
	quorum quorum

	hearing *hearing
	plan    atomic.Pointer[autopilot.Plan] // what it wants or waits for, nil while it is not raft leader

	// Only the goroutine of run uses these.
	well    map[uint64]lease.Instant // since when a replica has been heard and caught up
	unseen  map[uint64]lease.Instant // since when gossip has not seen it
	gone    map[string]lease.Instant // since when a known node has had no replica
	stray   map[uint64]lease.Instant // since when a replica that runs has been no member
	refused map[uint64]lease.Instant // when the group refused to take a replica in
	asks    map[string]uint64        // the replicas that candidates would have
	change  uint64                   // the last change of the membership that was seen
	changed lease.Instant            // when
	hurry   bool                     // somebody leaves, or this node has just become raft leader
	unknown bool                     // whether a change may be under way whose outcome this node does not know
}

func newPilot(c *Cluster) *pilot {
	p := &pilot{c: c, quorum: quorum{c: c}, hearing: newHearing()}
	p.loop = newLoop(p.look)
	p.reset()
	return p
}

// reset forgets what means nothing to a later time as raft leader.
func (p *pilot) reset() {
	p.hearing.follow()
	p.plan.Store(nil)
	p.unknown = true
	p.well, p.unseen = make(map[uint64]lease.Instant), make(map[uint64]lease.Instant)
	p.gone, p.stray = make(map[string]lease.Instant), make(map[uint64]lease.Instant)
	p.refused = make(map[uint64]lease.Instant)
}

// note takes an event of the local apply.
func (p *pilot) note(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventSilent:
		p.hearing.note(e, p.c.clock.Now())
	case fsm.EventDeparted:
		p.wake()
	}
}

// look looks after the group while this node is raft leader.
func (p *pilot) look(ctx context.Context) (pause time.Duration) {
	group, _ := p.c.proposer.current()
	p.quorum.look(group)
	if group == nil || !group.IsRaftLeader() {
		p.reset()
		return pilotPause
	}
	if p.step(ctx, group) {
		return 0 // there may be more to do
	}
	if p.hurry {
		return hurryPause
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
	if info.Born && !info.Serving && complete(info, members, len(known)) {
		out, err := group.Propose(ctx, fsm.Encode(fsm.Serve{}))
		return err == nil && out.Code == fsm.CodeOK
	}
	p.write(group, members)
	if p.withdraw(ctx, group, members, known) {
		return true
	}
	in := p.input(group, members, info, known)
	plan := autopilot.Next(in)
	if last := p.plan.Swap(&plan); plan.Kind == autopilot.Wait && (last == nil || last.Kind != plan.Kind) {
		p.c.log.Info("the membership is not as wanted", "waits", plan.Reason)
	}
	p.publish(ctx, group, members, info.Commands, plan)
	if plan.Kind <= autopilot.Wait || plan.Kind == autopilot.AddStandby && !p.c.founder.share() {
		return false
	}
	err := p.carryOut(ctx, group, plan)
	if plan.Kind == autopilot.Barrier {
		p.unknown = err != nil
		return err == nil
	}
	p.unknown = errors.Is(err, consensus.ErrUnknown)
	if err != nil {
		if plan.Kind == autopilot.AddStandby && denied(err, plan.Index, group.Members().Change) {
			p.refused[p.asks[plan.Node]] = p.c.clock.Now()
		}
		p.c.log.Warn("changing the membership", "change", plan.Kind, "of", plan.Node, "reason", plan.Reason, "error", err)
		return false
	}
	p.c.log.Info("changed the membership", "change", plan.Kind, "of", plan.Node, "reason", plan.Reason)
	return true
}

// publish tells the next raft leader who is silent, if there is a majority to tell it to.
func (p *pilot) publish(ctx context.Context, group *consensus.Group, members consensus.Members, commands uint64, plan autopilot.Plan) {
	if plan.Bears < 0 {
		return
	}
	if silent := p.hearing.report(members, p.c.ID(), commands, p.c.clock.Now()); silent != nil {
		_, _ = group.Propose(ctx, fsm.Encode(silent)) // what is lost is said again
	}
}

// complete reports whether the group may serve its first lock: as many nodes have met in it as its founder wanted, and
// as many of them vote. It is the group's to say, not the Config of the node that happens to be raft leader. Of two, one
// votes: there the other must have said Hello, and so belong to this group and no other.
func complete(info fsm.Info, members consensus.Members, hellos int) bool {
	return (len(members.Voters) >= int(info.Voters) || info.Voters == 2 && hellos >= 2) &&
		len(members.Voters)+len(members.Standbys) >= int(info.Bootstrap)
}

// write tells the nodes whose replica the group has taken in to start it, and those whose replica it has removed that it
// is out: while they were away, or as they wished, since the last that Raft sends to a replica may be the
// entry that removes it, without the news that it is committed. They are told again until their gossip
// shows that they have heard. Who is not a member by what is applied here is out only if that is all that is committed.
func (p *pilot) write(group *consensus.Group, members consensus.Members) {
	id := p.c.dir.Identity()
	now := p.c.clock.Now()
	seen := p.c.gossip.Members()
	maps.DeleteFunc(p.stray, func(replica uint64, _ lease.Instant) bool {
		return !slices.ContainsFunc(seen, func(m membership.Member) bool { return m.Replica == replica })
	})
	var messages []forming.Message
	for _, m := range seen {
		if !m.Here() || m.ClusterID != id.ClusterID {
			continue
		}
		started := m.Phase == membership.PhaseStarting || m.Phase == membership.PhaseRunning
		in := members.Includes(m.Replica)
		stray := since(p.stray, m.Replica, started && !in, now) >= goneTime ||
			m.Phase == membership.PhaseLeaving && !in || m.Phase == membership.PhaseJoining && p.turnedDown(m.Replica, now)
		message := forming.Message{From: id.NodeID, To: m.Node, Cluster: id.ClusterID, Replica: m.Replica}
		switch {
		case in && m.Phase == membership.PhaseJoining:
			message.Kind = forming.Welcome
		case stray && !in && !p.unknown:
			message.Kind, message.Left = forming.Dismiss, departure(group, m.Node) != fsm.Stays
		default:
			continue
		}
		messages = append(messages, message)
	}
	p.c.founder.send(messages)
}

// turnedDown reports whether the group has refused to take a replica in, a moment ago: it had removed it.
func (p *pilot) turnedDown(replica uint64, now lease.Instant) bool {
	at, ok := p.refused[replica]
	return ok && now-at < lease.Instant(refusedTime)
}

// denied reports whether the group said no to a change of a node. That its outcome is unknown, that it got lost, or that
// another change came before it says nothing of the node.
func denied(err error, seen, now uint64) bool {
	return errors.Is(err, consensus.ErrMembershipChanged) && seen == now
}

func (p *pilot) carryOut(ctx context.Context, group *consensus.Group, plan autopilot.Plan) error {
	switch plan.Kind {
	case autopilot.Barrier:
		return group.Barrier(ctx)
	case autopilot.HandOver:
		return group.Transfer(ctx, plan.Node)
	case autopilot.AddStandby:
		return group.AddStandby(ctx, plan.Node, p.asks[plan.Node], plan.Index)
	case autopilot.Promote:
		return group.Promote(ctx, plan.Node, plan.Index)
	case autopilot.Remove:
		return group.Remove(ctx, plan.Node, plan.Index)
	}
	return nil
}

// withdraw takes what a node waits for that has no replica any more out of the queues: nobody may be there to take
// it. What the node holds it keeps until its TTL, since nothing proves that its process is dead. At most one node a call.
func (p *pilot) withdraw(ctx context.Context, group *consensus.Group, members consensus.Members, known []fsm.NodeRecord) bool {
	now := p.c.clock.Now()
	for _, n := range known {
		node := n.Node.String()
		if since(p.gone, node, !n.Gone && !members.Has(node), now) < goneTime {
			continue
		}
		_, err := group.Propose(ctx, fsm.Encode(fsm.Remove{Node: n.Node, Incarnation: n.Incarnation, Since: n.Since}))
		return err == nil
	}
	return false
}

// input is what the autopilot goes by: the membership as applied here, whom Raft hears, who has said that it leaves, and
// whom gossip sees.
func (p *pilot) input(group *consensus.Group, members consensus.Members, info fsm.Info, known []fsm.NodeRecord) autopilot.Input {
	now := p.c.clock.Now()
	id := p.c.dir.Identity()
	p.hearing.lead(members, now)
	if members.Change != p.change {
		p.change, p.changed = members.Change, now
	}
	in := autopilot.Input{
		Self: id.NodeID, Want: p.c.cfg.Voters, Index: members.Change, Unknown: p.unknown,
		Listening: p.hearing.listening(now), Moment: p.c.cfg.Timing.moment(), ReplaceAfter: p.c.cfg.ReplaceAfter,
		Changed: max(1, time.Duration(now-p.changed)),
	}
	if info.Serving {
		in.StableAfter = stableAfter
	} else { // there is nothing to lose yet
		in.Want, in.Listening, in.Expected = max(in.Want, int(info.Voters)), in.Moment, int(info.Bootstrap)
	}
	v := vision{cluster: id.ClusterID, heard: group.Heard(), seen: make(map[string]membership.Member), hellos: make(map[string]fsm.NodeRecord)}
	p.hearing.take(v.heard, members, now)
	for _, begun := range []map[uint64]lease.Instant{p.well, p.unseen} {
		maps.DeleteFunc(begun, func(replica uint64, _ lease.Instant) bool { return !members.Includes(replica) })
	}
	maps.DeleteFunc(p.refused, func(replica uint64, _ lease.Instant) bool { return !p.turnedDown(replica, now) })
	for _, m := range p.c.gossip.Members() {
		v.seen[m.Node] = m
	}
	for _, n := range known {
		v.hellos[n.Node.String()] = n
	}
	if heardAll(v.heard, members, in.Self) {
		in.Listening = in.Moment // there is nobody left to listen for
	}
	v.departed = departed(group, members)
	p.hurry = p.hearing.listening(now) < in.Moment || slices.Contains(slices.Collect(maps.Values(v.departed)), fsm.Leaves)
	v.applied = info.Applied
	for replica, node := range members.All() {
		role := autopilot.Standby
		if members.Voters[replica] != "" {
			role = autopilot.Voter
		}
		in.Members = append(in.Members, p.replica(&v, role, replica, node, now, in.Moment))
	}
	p.candidates(&in, &v, members, now)
	return in
}

// candidates adds the nodes that ask for a replica. A node that has one, of a former life, waits until that is removed.
func (p *pilot) candidates(in *autopilot.Input, v *vision, members consensus.Members, now lease.Instant) {
	p.asks = make(map[string]uint64)
	for node, m := range v.seen {
		if members.Has(node) || p.turnedDown(m.Replica, now) {
			continue
		}
		if m.Here() && m.Phase == membership.PhaseJoining && m.ClusterID == v.cluster {
			in.Members = append(in.Members, autopilot.Member{Node: node, Zone: m.Zone})
			p.asks[node] = m.Replica
		}
	}
}

// heardAll reports whether every other voter was heard in the present term.
func heardAll(heard map[uint64]consensus.Heard, members consensus.Members, self string) bool {
	for replica, node := range members.Voters {
		if _, ok := heard[replica]; !ok && node != self {
			return false
		}
	}
	return true
}

// vision is what the raft leader knows of the others.
type vision struct {
	heard    map[uint64]consensus.Heard
	seen     map[string]membership.Member
	hellos   map[string]fsm.NodeRecord // nodes whose Hello the group has carried out
	departed map[string]fsm.Departure
	applied  uint64 // log index
	cluster  string
}

// replica describes one replica to the autopilot and notes since when it has been so.
func (p *pilot) replica(v *vision, role autopilot.Role, replica uint64, node string, now lease.Instant, moment time.Duration) autopilot.Member {
	m := v.seen[node]
	r := autopilot.Member{
		Node: node, Zone: m.Zone, Role: role, Departure: autopilot.Departure(v.departed[node]), Disk: v.hellos[node].Place != (fsm.Place{}),
		Heard: p.hearing.since(replica, now), Seen: since(p.unseen, replica, !m.Here() || m.Replica != replica, now),
	}
	r.Succeeded = m.Here() && m.Phase == membership.PhaseJoining && m.ClusterID == v.cluster && m.Replica != replica
	match := v.heard[replica].Match
	if match < v.applied {
		r.Behind = v.applied - match
	}
	// The Hello may be of a former life; then the replica has nothing before it has said what it has.
	r.Running = v.hellos[node].Incarnation != 0 && (role == autopilot.Voter || match > 0)
	r.Age = since(p.well, replica, r.Running && r.Heard < moment, now)
	return r
}

// since answers for how long something has been so without a break.
func since[K comparable](begun map[K]lease.Instant, key K, so bool, now lease.Instant) time.Duration {
	if !so {
		delete(begun, key)
		return 0
	}
	at, ok := begun[key]
	if !ok {
		begun[key], at = now, now
	}
	return time.Duration(now - at)
}
