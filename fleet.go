package holdfast

import (
	"crypto/tls"
	"fmt"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/transport"
)

// Role is what a node does in the group.
type Role uint8

// Roles.
const (
	RoleClient   Role = iota // no replica
	RoleNonVoter             // its replica follows
	RoleVoter                // its replica votes
)

func (r Role) String() string {
	return name(uint8(r), "client", "non-voter", "voter")
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
	ID, ClusterID string // ClusterID is "" until the node belongs to a group
	Role          Role
	Ready         bool   // the last that this node knows; Ready asks the group
	RaftLeader    string // node id, "" if unknown: a hint, never a proof
	Term, Applied uint64
	Voters        []string // node ids, as this replica last applied them
	NonVoters     []string
	Held, Waiting int      // leases and waiting calls of this process
	Failure       error    // why the node has stopped serving for good, nil otherwise
	Expiries      Lateness // sessions that expired, as this node saw it
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
	group, _ := c.proposer.current()
	if group == nil {
		return roles
	}
	members := group.Members()
	for _, node := range members.NonVoters {
		roles[node] = RoleNonVoter
	}
	for _, node := range members.Voters {
		roles[node] = RoleVoter
	}
	return roles
}

// Status returns a snapshot of this node. It does no I/O.
func (c *Cluster) Status() Status {
	st := Status{ID: c.ID(), ClusterID: c.dir.Identity().ClusterID, Expiries: c.expirer.lateness()}
	st.Held, st.Waiting = c.keeper.counts()
	c.mu.Lock()
	st.Failure = c.failure
	stopped := c.cause != nil
	c.mu.Unlock()
	group, _ := c.proposer.current()
	if group == nil {
		return st
	}
	members := group.Members()
	for _, node := range members.Voters {
		st.Voters = append(st.Voters, node)
	}
	for _, node := range members.NonVoters {
		st.NonVoters = append(st.NonVoters, node)
	}
	st.Role = c.roles()[st.ID]
	known := false
	st.RaftLeader, st.Term, known = group.RaftLeader()
	group.Read(func(m *fsm.Machine) { st.Applied = m.Applied() })
	st.Ready = !stopped && known && c.serves(group)
	return st
}

// votes reports whether this node's replica votes, as applied here.
func (c *Cluster) votes(group *consensus.Group) bool {
	self := c.ID()
	for _, node := range group.Members().Voters {
		if node == self {
			return true
		}
	}
	return false
}

// meta is what this node tells about itself in gossip.
func (c *Cluster) meta(phase membership.Phase) membership.Meta {
	id := c.dir.Identity()
	return membership.Meta{
		Node: id.NodeID, Incarnation: c.self.Incarnation, ClusterID: id.ClusterID,
		Name: c.cfg.Name, Zone: c.cfg.Zone, Version: version(),
		Replica: consensus.ReplicaID(id.NodeID), Phase: phase,
	}
}

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
