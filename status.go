package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/membership"
	"github.com/holdfast-go/holdfast/internal/seam"
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
	// Ready is the last that this node knows; Cluster.Ready asks the group. Until it is true for the
	// first time it also waits for the voters, as Cluster.Ready does. It is false while the node is
	// ill.
	Ready bool
	// Waits says in words why Ready is false: what ails the node, as "the disk has not finished a
	// write for 3 s" or "no answer from the raft leader for 2 s", or what it waits for; "" if Ready
	// is true, and if the node knows of nothing.
	Waits         string
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
	now := c.node.Status()
	members := make([]Member, 0, len(now.Members))
	roles := roles(now)
	for _, m := range now.Members {
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
func roles(now seam.Status) map[string]Role {
	roles := make(map[string]Role)
	for _, node := range now.Standbys {
		roles[node] = RoleStandby
	}
	for _, node := range now.Voters {
		roles[node] = RoleVoter
	}
	return roles
}

// Status returns a snapshot of this node. It does no I/O.
func (c *Cluster) Status() Status {
	now := c.node.Status()
	st := Status{
		ID: c.ID(), ClusterID: now.ClusterID, Foreign: now.Foreign, Role: roles(now)[c.ID()],
		Voters: now.Voters, Standbys: now.Standbys, RaftLeader: now.RaftLeader, Term: now.Term, Applied: now.Applied,
		Plan: now.Plan, Ready: now.Serves, Waits: now.Waits, Failure: c.apiError(now.Failure),
	}
	st.Held, st.Waiting = c.keeper.table.Counts()
	st.Metrics = c.metrics(st, now)
	return st
}
