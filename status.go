package holdfast

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/expiry"
	"github.com/holdfast-go/holdfast/internal/hearing"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/transport"
)

// Role is what a node does in the group.
type Role uint8

// Roles.
const (
	RoleClient  Role = iota // no replica
	RoleStandby             // its replica follows
	RoleVoter               // its replica votes
)

func (r Role) String() string {
	return name(uint8(r), "client", "standby", "voter")
}

// MemberState is how gossip sees a member.
type MemberState uint8

// States of a member.
const (
	StateAlive MemberState = iota
	StateSuspect
	StateFailed
	StateLeft
)

func (s MemberState) String() string {
	return name(uint8(s), "alive", "suspect", "failed", "left")
}

func name(i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// Member is a node as gossip sees it.
type Member struct {
	ID, Name, Addr, Zone, Version string
	Role                          Role
	State                         MemberState
	Local                         bool // this node itself
}

// Status is a snapshot of this node.
type Status struct {
	ID, ClusterID string // ClusterID is "" until the node belongs to a group; both stay when its replica is replaced
	Role          Role
	Ready         bool   // the last that this node knows; Ready asks the group
	RaftLeader    string // node id, "" if unknown: a hint, never a proof
	Term, Applied uint64
	Voters        []string // node ids, as this replica last applied them
	Standbys      []string
	Held, Waiting int      // leases and waiting calls of this process
	Failure       error    // why the node has stopped serving for good, nil otherwise
	Expiries      Lateness // sessions that expired, as this node saw it
	Plan          string   // on the raft leader: what it is about to change in the membership, or waits for, and why
	Foreign       []string // cluster ids of other groups of this name in sight
	Figures       Figures  // what this node has counted, for metrics
}

// Members returns what gossip sees now, this node included. It does no I/O.
func (c *Cluster) Members() []Member {
	list := c.gossip.Members()
	members := make([]Member, 0, len(list))
	roles := c.roles()
	for _, m := range list {
		members = append(members, Member{
			ID: m.Node, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version,
			Role: roles[m.Node], State: memberState(m.State), Local: m.Local,
		})
	}
	return members
}

func memberState(s membership.State) MemberState {
	switch s {
	case membership.Alive:
		return StateAlive
	case membership.Suspect:
		return StateSuspect
	case membership.Left:
		return StateLeft
	}
	return StateFailed
}

// roles tells the role of every node with a replica, as applied here.
func (c *Cluster) roles() map[string]Role {
	roles := make(map[string]Role)
	group, _ := c.proposer.Current()
	if group == nil {
		return roles
	}
	members := group.Members()
	for _, node := range members.Standbys {
		roles[node] = RoleStandby
	}
	for _, node := range members.Voters {
		roles[node] = RoleVoter
	}
	return roles
}

// Lateness is how long after the end of their TTL sessions were ended, as seen by one node since it
// started, on its own clock. It is never negative, and two seconds at most at default timing,
// fail-over included.
type Lateness struct {
	Count     int
	Max, Last time.Duration
}

// Status returns a snapshot of this node. It does no I/O.
func (c *Cluster) Status() Status {
	st := c.status()
	st.Figures = c.figures(st)
	return st
}

func (c *Cluster) status() Status {
	st := Status{
		ID: c.ID(), ClusterID: c.dir.Identity().ClusterID, Expiries: Lateness(c.times.Lateness()), Foreign: c.founder.rivals.list(),
	}
	st.Held, st.Waiting = c.keeper.table.Counts()
	failure, closing := c.isClosing()
	st.Failure = failure
	group, _ := c.proposer.Current()
	if group == nil {
		return st
	}
	members := group.Members()
	for _, node := range members.Voters {
		st.Voters = append(st.Voters, node)
	}
	for _, node := range members.Standbys {
		st.Standbys = append(st.Standbys, node)
	}
	st.Role = c.roles()[st.ID]
	known := false
	st.RaftLeader, st.Term, known = c.raftLeader(group)
	group.Read(func(m *fsm.Machine) { st.Applied = m.Applied() })
	if plan := c.pilot.plan.Load(); plan != nil {
		st.Plan = plan.String()
	}
	st.Ready = !closing && known && c.serves(group)
	return st
}

// votes reports whether this node's replica votes, as applied here.
func (c *Cluster) votes(group *consensus.Group) bool { return group.Members().Votes(c.ID()) }

// voter is this node's replica if it votes, else nil.
func (c *Cluster) voter() expiry.Group {
	if group, _ := c.proposer.Current(); group != nil && c.votes(group) {
		return group
	}
	return nil
}

const (
	dialTime = time.Second
	// lossSeen is when gossip has noticed the loss of a member, with some reserve.
	lossSeen = 10 * time.Second
)

// serves reports whether the group grants locks and this node has, or has had, its place in it. A
// group that is about to yield does not.
func (c *Cluster) serves(group *consensus.Group) bool {
	serving := false
	group.Read(func(m *fsm.Machine) { serving = m.Info().Serving })
	return serving && len(c.founder.rivals.asks()) == 0 && (c.founder.placed.Load() || c.complete(group))
}

// complete reports whether there are voters enough that are here, and whether the group can lose
// one of them: one that is gone but not yet removed counts against it. In a fleet that is too small
// for all its voters it is enough to vote, and in one of two to stand by the one that does.
func (c *Cluster) complete(group *consensus.Group) bool {
	members := group.Members()
	here, voters := len(c.votersHere(group)), len(members.Voters)
	if here < c.cfg.Voters {
		return c.votes(group) || voters == 1 && len(members.Standbys) == 1 && members.Has(c.ID())
	}
	return here == voters || here-1 > voters/2
}

// votersHere lists the voters that gossip sees and that stay.
func (c *Cluster) votersHere(group *consensus.Group) (list []membership.Member) {
	members := group.Members()
	departed := departed(group, members)
	for _, node := range members.Voters {
		if m, ok := c.gossip.Member(node); ok && m.Here() && departed[node] == fsm.Stays {
			list = append(list, m)
		}
	}
	return list
}

// departed tells which nodes with a replica have said, through the group itself, that they leave it
// or are gone.
func departed(group *consensus.Group, members hearing.Members) map[string]fsm.Departure {
	gone := make(map[string]fsm.Departure)
	for _, node := range members.All() {
		gone[node] = departure(group, node)
	}
	return gone
}

// departure tells whether a node has said, through the group itself, that it leaves it or is gone.
func departure(group *consensus.Group, node string) (departure fsm.Departure) {
	if id, err := fsm.ParseNode(node); err == nil {
		group.Read(func(m *fsm.Machine) { departure = m.Departed(id) })
	}
	return departure
}

// answered reports whether all voters that gossip sees answer a probe now: it takes gossip a while
// to notice that one is gone. One that it has seen for longer than that may be out of this node's
// reach.
func (c *Cluster) answered(ctx context.Context, group *consensus.Group) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var all sync.WaitGroup
	var silent atomic.Bool
	for _, m := range c.votersHere(group) {
		if m.Local || time.Since(m.Since) > lossSeen {
			continue
		}
		all.Go(func() {
			if c.probe(ctx, m.Addr, m.Node, m.Incarnation) != nil {
				silent.Store(true)
			}
		})
	}
	all.Wait()
	return !silent.Load()
}

// meta is what this node tells about itself in gossip.
func (c *Cluster) meta(phase membership.Phase) membership.Meta {
	id := c.dir.Identity()
	return membership.Meta{
		Node: id.NodeID, Incarnation: c.self.Incarnation, ClusterID: id.ClusterID,
		Name: c.cfg.Name, Zone: c.cfg.Zone, Version: shortened(version()),
		Replica: consensus.ReplicaOf(id.NodeID, id.Life), Phase: phase, Alone: id.Alone(), Birth: id.Birth,
	}
}

// shortened cuts a version to what gossip carries: the version of a commit without a tag
// (v0.0.0-20261121150405-0123456789ab) is longer, and no node of a program that used one could
// start.
func shortened(version string) string { return version[:min(len(version), membership.VersionMax)] }

// version is that of this module in the program that runs.
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

// security makes the keys of connections and of gossip from Secrets and TLS.
func (c Config) security() (*tls.Config, [][]byte, error) {
	if len(c.Secrets) == 0 {
		return c.TLS, nil, nil
	}
	keys, err := transport.GossipKeys(c.Cluster, c.Secrets)
	if err != nil {
		return nil, nil, fmt.Errorf("holdfast: deriving keys: %w", err)
	}
	if c.TLS != nil {
		return c.TLS, keys, nil
	}
	config, err := transport.FromSecrets(c.Cluster, c.Secrets)
	if err != nil {
		return nil, nil, fmt.Errorf("holdfast: deriving keys: %w", err)
	}
	return config, keys, nil
}
