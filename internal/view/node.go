package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Node is this node and its group.
type Node struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	ClusterID  string   `json:"cluster_id"`
	Role       string   `json:"role"`
	State      string   `json:"state"` // serving, waiting, ill, no-quorum, failed
	Ready      bool     `json:"ready"`
	Waits      string   `json:"waits"`
	RaftLeader string   `json:"raft_leader"`
	LeaderName string   `json:"raft_leader_name"`
	Leads      bool     `json:"raft_leader_here"`
	Term       uint64   `json:"term"`
	Applied    uint64   `json:"applied"`
	Committed  uint64   `json:"committed"`
	Voters     int      `json:"voters"`
	Heard      int      `json:"voters_heard"` // on the raft leader: its own, and those heard within heardMax
	Majority   int      `json:"majority"`
	Standbys   int      `json:"standbys"`
	Held       int      `json:"leases_held"`
	Waiting    int      `json:"calls_waiting"`
	Plan       string   `json:"plan"`
	Foreign    []string `json:"foreign_groups"`
	Failure    string   `json:"failure"`
}

// heardMax is for how long a voter counts as heard.
const heardMax = 2 * time.Second

// Member is one node: what gossip sees of it, and what Raft hears of its replica.
type Member struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Addr       string   `json:"address"`
	Zone       string   `json:"zone"`
	Version    string   `json:"version"`
	Role       string   `json:"role"`
	State      string   `json:"state"` // alive, suspect, failed, left; unseen: a replica whose node gossip does not see
	Local      bool     `json:"local"`
	RaftLeader bool     `json:"raft_leader"`
	Heard      *float64 `json:"heard_seconds"` // ago, through Raft; null: not known here
	Behind     *uint64  `json:"behind"`        // entries; null but on the raft leader
	Ill        string   `json:"ill"`
}

// OfNode is a status in the words of people.
func OfNode(st holdfast.Status, members []Member) Node {
	v := Node{
		ID: st.ID, ClusterID: st.ClusterID, Role: st.Role.String(), State: State(st), Ready: st.Ready, Waits: st.Waits,
		RaftLeader: st.RaftLeader, Leads: st.RaftLeader != "" && st.RaftLeader == st.ID, Term: st.Term, Applied: st.Applied, Committed: st.Metrics.Committed,
		Voters: len(st.Voters), Standbys: len(st.Standbys), Majority: len(st.Voters)/2 + 1, Held: st.Held, Waiting: st.Waiting,
		Plan: st.Plan, Foreign: append([]string{}, st.Foreign...),
	}
	if st.Failure != nil {
		v.Failure = st.Failure.Error()
	}
	for _, r := range st.Voters {
		if r.ID == st.ID || r.Heard >= 0 && r.Heard < heardMax {
			v.Heard++
		}
	}
	for _, m := range members {
		if m.Local {
			v.Name = m.Name
		}
		if m.ID == st.RaftLeader {
			v.LeaderName = m.Name
		}
	}
	return v
}

// State is a status in one word.
func State(st holdfast.Status) string {
	switch {
	case st.Failure != nil:
		return "failed"
	case st.Ready:
		return "serving"
	case st.ClusterID != "" && st.RaftLeader == "":
		return "no-quorum"
	case st.Metrics.Ill:
		return "ill"
	}
	return "waiting"
}

// OfMembers joins what gossip sees and what Raft hears: the voters first, then the standbys, each
// in the order of their names.
func OfMembers(st holdfast.Status, seen []holdfast.Member) []Member {
	list := make([]Member, 0, len(seen))
	place := make(map[string]int, len(seen))
	for _, m := range seen {
		place[m.ID] = len(list)
		list = append(list, Member{
			ID: m.ID, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version,
			Role: m.Role.String(), State: m.State.String(), Local: m.Local,
		})
	}
	leads := st.RaftLeader != "" && st.RaftLeader == st.ID
	client := st.Role == holdfast.RoleClient // shows what its replica hears
	for _, r := range slices.Concat(st.Voters, st.Standbys) {
		i, ok := place[r.ID]
		if !ok {
			i = len(list)
			list = append(list, Member{ID: r.ID, Name: r.Name, Addr: r.Addr, State: "unseen", Role: holdfast.RoleStandby.String()})
			if slices.ContainsFunc(st.Voters, func(v holdfast.Replica) bool { return v.ID == r.ID }) {
				list[i].Role = holdfast.RoleVoter.String()
			}
		}
		m := &list[i]
		m.Ill = r.Ill
		if r.Heard >= 0 && r.ID != st.ID && (leads || client && r.Heard > 0 || r.ID == st.RaftLeader) {
			m.Heard = Seconds(r.Heard)
		}
		if leads && r.ID != st.ID {
			m.Behind = &r.Behind
		}
	}
	for i := range list {
		list[i].RaftLeader = list[i].ID == st.RaftLeader
	}
	rank := map[string]int{"voter": 0, "standby": 1}
	slices.SortStableFunc(list, func(a, b Member) int {
		ra, oka := rank[a.Role]
		rb, okb := rank[b.Role]
		if !oka {
			ra = 2
		}
		if !okb {
			rb = 2
		}
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return list
}
