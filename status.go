package holdfast

import (
	"fmt"
	"time"

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
	Level                         uint64 // highest feature level that it knows, 0 if it does not say
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
	// Waits is the reason, in words, why Ready is false: an illness, as "the disk has not finished a
	// write for 3 s" or "no answer from the raft leader for 2 s", or what the node waits for. It is ""
	// if Ready is true, and if the node knows no reason.
	Waits         string
	RaftLeader    string // node id, "" if unknown: a hint, never a proof
	Term, Applied uint64
	Voters        []Replica // as this replica last applied them, by ID
	Standbys      []Replica
	// Level is the feature level of the group, 0 before the node belongs to one, and LevelKnown the
	// highest that this node knows. A version that knows a higher level serves at the group's, and one
	// that does not know the group's cannot join. LevelWaits is, on the raft leader, why the group is
	// not at the next level that the raft leader knows: which nodes do not know it, or are away.
	Level, LevelKnown uint64
	LevelWaits        string
	Held, Waiting     int      // leases and waiting calls of this process
	Failure           error    // why the node has stopped serving for good, nil otherwise
	Plan              string   // on the raft leader: what it is about to change in the membership, or waits for, and why
	Drift             string   // which nodes have another Voters, Timing or MaxTTL than this one, as gossip has it, and what they have
	Foreign           []string // cluster ids of other groups of this name in sight
	Metrics           Metrics  // what this node has counted
}

// Replica is a voter or a standby as this node knows it. The raft leader hears all of them; any other
// node hears the raft leader alone.
type Replica struct {
	ID, Name, Addr string        // of its node: Name and Addr are "" where gossip has never seen it
	Heard          time.Duration // since this node heard it through Raft: 0 for its own, -1 for one not heard in this term
	Behind         uint64        // on the raft leader: entries of the log that it has not acknowledged
	Ill            string        // why it does not work, in words, as far as this node knows; "" if well
}

func replicas(list []seam.Replica) []Replica {
	all := make([]Replica, len(list))
	for i, r := range list {
		all[i] = Replica{ID: r.Node, Name: r.Name, Addr: r.Addr, Heard: r.Heard, Behind: r.Behind, Ill: r.Ill}
	}
	return all
}

// Members returns what gossip sees now, this node included. It does no I/O. On a client it is what
// its replica saw: see Status.
func (c *Cluster) Members() []Member {
	now := c.node.Status()
	members := make([]Member, 0, len(now.Members))
	roles := roles(now)
	for _, m := range now.Members {
		members = append(members, Member{
			ID: m.Node, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version, Level: m.Level,
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

// roles maps each node with a replica to its role, as applied here.
func roles(now seam.Status) map[string]Role {
	roles := make(map[string]Role)
	for _, r := range now.Standbys {
		roles[r.Node] = RoleStandby
	}
	for _, r := range now.Voters {
		roles[r.Node] = RoleVoter
	}
	return roles
}

// Status returns a snapshot of this node. It does no I/O. A client shows of its fleet (the replicas,
// the raft leader, Term, Applied, Level, Plan) what its replica told it last. Ready asks the replica;
// after that a call of Status or Members that finds an answer older than a second asks for the next.
func (c *Cluster) Status() Status {
	now := c.node.Status()
	st := Status{
		ID: c.ID(), ClusterID: now.ClusterID, Foreign: now.Foreign, Role: roles(now)[c.ID()],
		Voters: replicas(now.Voters), Standbys: replicas(now.Standbys), RaftLeader: now.RaftLeader, Term: now.Term, Applied: now.Applied,
		Plan: now.Plan, Drift: now.Drift, Ready: now.Serves, Waits: now.Waits, Failure: c.apiError(now.Failure),
		Level: now.Level, LevelKnown: now.Knows, LevelWaits: now.Rise,
	}
	st.Held, st.Waiting = c.keeper.table.Counts()
	st.Metrics = c.metrics(st, now)
	return st
}
