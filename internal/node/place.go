package node

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/autopilot"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/membership"
)

// votes reports whether this node's replica votes, as applied here.
func (n *Node) votes(group *consensus.Group) bool { return group.Members().Votes(n.ID()) }

// voter is this node's replica if it votes, else nil.
func (n *Node) voter() expiry.Group {
	if group, _ := n.Proposer.Current(); group != nil && n.votes(group) {
		return group
	}
	return nil
}

const (
	dialTime = time.Second      // of one probe
	lossSeen = 10 * time.Second // in which gossip detects the loss of a member, with some reserve
)

// serves reports whether the group grants locks and this node has, or has had, its place in it. A
// group that is about to yield does not serve.
func (n *Node) serves(group *consensus.Group) bool {
	return n.grants(group) && (n.founder.placed.Load() || n.complete(group))
}

// grants reports whether the group grants locks, and is not about to yield.
func (n *Node) grants(group *consensus.Group) (serving bool) {
	group.Read(func(m *fsm.Machine) { serving = m.Info().Serving })
	return serving && len(n.founder.rivals.asks()) == 0
}

// complete reports whether enough voters are here, and whether the group can lose one of them: a
// voter that is gone but not yet removed counts against it. In a fleet smaller than Config.Voters a
// node has its place if it votes, and in a fleet of two also if it is the standby.
func (n *Node) complete(group *consensus.Group) bool {
	members := group.Members()
	here, voters := len(n.votersHere(group)), len(members.Voters)
	if here < n.cfg.Voters {
		return n.votes(group) || voters == 1 && len(members.Standbys) == 1 && members.Has(n.ID())
	}
	return suffice(here, voters)
}

// bears reports whether the group can lose any one voter, or has as many as it shall have if those
// are too few for that.
func (n *Node) bears(group *consensus.Group) bool {
	here, voters := len(n.votersHere(group)), len(group.Members().Voters)
	return enough(here, voters) || here == voters && here >= n.cfg.Voters
}

// suffice reports whether no voter is missing, or the group can lose one of those that are here.
func suffice(here, voters int) bool { return here == voters || enough(here, voters) }

// enough reports whether so many of the voters are a majority without one of them.
func enough(here, voters int) bool { return here-1 > voters/2 }

// votersHere lists the voters that gossip sees and that do not leave.
func (n *Node) votersHere(group *consensus.Group) (list []membership.Member) {
	members := group.Members()
	departed := departed(group, members)
	for _, node := range members.Voters {
		if m, ok := n.gossip.Member(node); ok && m.Here() && departed[node] == fsm.Stays {
			list = append(list, m)
		}
	}
	return list
}

// departed is the departure of every node with a replica.
func departed(group *consensus.Group, members autopilot.Members) map[string]fsm.Departure {
	gone := make(map[string]fsm.Departure)
	for _, node := range members.All() {
		gone[node] = departure(group, node)
	}
	return gone
}

// departure says whether a node has announced, by a Goodbye in the group, that it leaves or is gone.
func departure(group *consensus.Group, node string) (departure fsm.Departure) {
	if id, err := fsm.ParseNode(node); err == nil {
		group.Read(func(m *fsm.Machine) { departure = m.Departed(id) })
	}
	return departure
}

// answered reports whether all voters that gossip sees answer a probe now, as gossip detects the loss
// of a member only after seconds. A voter that gossip has seen for longer than that is not probed: it
// may be out of this node's reach.
func (n *Node) answered(ctx context.Context, voters []membership.Member) bool {
	voters = slices.DeleteFunc(voters, func(m membership.Member) bool { return m.Local || time.Since(m.Since) > lossSeen })
	return !slices.Contains(together(voters, func(m membership.Member) bool {
		return n.probe(ctx, m.Addr, m.Node, m.Incarnation) == nil
	}), false)
}

// firstPhase is the phase of the node when gossip starts, and when another life begins: fresh only if
// the node may take part in forming a group.
func (n *Node) firstPhase() autopilot.Phase {
	id := n.dir.Identity()
	switch {
	case id.ClusterID != "" && !id.Asks:
		return autopilot.PhaseStarting
	case id.Asks, n.founder.bootstrap() < 0:
		return autopilot.PhaseJoining
	}
	return autopilot.PhaseFresh
}

// meta is what gossip carries about this node.
func (n *Node) meta(phase autopilot.Phase) membership.Meta {
	id := n.dir.Identity()
	return membership.Meta{
		Node: id.NodeID, Incarnation: n.self.Incarnation, ClusterID: id.ClusterID,
		Name: n.cfg.Name, Zone: n.cfg.Zone, Version: shortened(version()),
		Replica: consensus.ReplicaOf(id.NodeID, id.Life), Phase: phase, Alone: id.Alone(), Birth: id.Birth,
		Level: n.knows(), GroupLevel: n.groupLevel(), Able: n.asClient.able(), Client: n.asClient.hangs.Load(), Unfit: n.asClient.unfit.Load(),
		Settings: membership.Settings{
			Voters: n.cfg.Voters, Replicas: n.cfg.Replicas, Tick: n.cfg.Tick, Heartbeat: n.cfg.Heartbeat, Election: n.cfg.Election, MaxTTL: n.cfg.MaxTTL,
		},
	}
}

// shortened cuts a version to the length that gossip carries: the version of a commit without a tag
// (v0.0.0-20261121150405-0123456789ab) is longer, and no node of such a program could start.
func shortened(version string) string { return version[:min(len(version), membership.VersionMax)] }

// version is the version of this module in the running program.
func version() string {
	const module = "github.com/holdfast-go/holdfast"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return info.Main.Version
}
