package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/node"
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
	Plan          string   // on the raft leader: what it is about to change in the membership, or waits for, and why
	Foreign       []string // cluster ids of other groups of this name in sight
	Metrics       Metrics  // what this node has counted
}

// Members returns what gossip sees now, this node included. It does no I/O.
func (c *Cluster) Members() []Member {
	list := c.node.Members()
	members := make([]Member, 0, len(list))
	roles := roles(c.node.View())
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
func roles(view node.View) map[string]Role {
	roles := make(map[string]Role)
	for _, node := range view.Standbys {
		roles[node] = RoleStandby
	}
	for _, node := range view.Voters {
		roles[node] = RoleVoter
	}
	return roles
}

// Status returns a snapshot of this node. It does no I/O.
func (c *Cluster) Status() Status {
	st := c.status()
	st.Metrics = c.metrics(st)
	return st
}

func (c *Cluster) status() Status {
	st := Status{
		ID: c.ID(), ClusterID: c.node.ClusterID(), Foreign: c.node.Foreign(),
	}
	st.Held, st.Waiting = c.keeper.table.Counts()
	failure, closing := c.node.Failure()
	st.Failure = c.apiError(failure)
	view := c.node.View()
	st.Voters, st.Standbys, st.Role = view.Voters, view.Standbys, roles(view)[st.ID]
	st.RaftLeader, st.Term, st.Applied = view.RaftLeader, view.Term, view.Applied
	st.Plan = c.node.Plan()
	st.Ready = !closing && view.Serves
	return st
}
