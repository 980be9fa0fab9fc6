package httpstatus

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Names of JSON are stable: testdata/names.golden has them all. Durations are in seconds.

// nodeView is this node and its group.
type nodeView struct {
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

// memberView is one node: what gossip sees of it, and what Raft hears of its replica.
type memberView struct {
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

// viewNode is a status in the words of the page.
func viewNode(st holdfast.Status, members []memberView) nodeView {
	v := nodeView{
		ID: st.ID, ClusterID: st.ClusterID, Role: st.Role.String(), State: stateOf(st), Ready: st.Ready, Waits: st.Waits,
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

func stateOf(st holdfast.Status) string {
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

// viewMembers joins what gossip sees and what Raft hears: the voters first, then the standbys, each
// in the order of their names.
func viewMembers(st holdfast.Status, seen []holdfast.Member) []memberView {
	list := make([]memberView, 0, len(seen))
	place := make(map[string]int, len(seen))
	for _, m := range seen {
		place[m.ID] = len(list)
		list = append(list, memberView{
			ID: m.ID, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Version: m.Version,
			Role: m.Role.String(), State: m.State.String(), Local: m.Local,
		})
	}
	leads := st.RaftLeader != "" && st.RaftLeader == st.ID
	for _, r := range slices.Concat(st.Voters, st.Standbys) {
		i, ok := place[r.ID]
		if !ok {
			i = len(list)
			list = append(list, memberView{ID: r.ID, Name: r.Name, Addr: r.Addr, State: "unseen", Role: holdfast.RoleStandby.String()})
			if slices.ContainsFunc(st.Voters, func(v holdfast.Replica) bool { return v.ID == r.ID }) {
				list[i].Role = holdfast.RoleVoter.String()
			}
		}
		m := &list[i]
		m.Ill = r.Ill
		if r.Heard >= 0 && r.ID != st.ID && (leads || r.ID == st.RaftLeader) {
			m.Heard = seconds(r.Heard)
		}
		if leads && r.ID != st.ID {
			m.Behind = &r.Behind
		}
	}
	for i := range list {
		list[i].RaftLeader = list[i].ID == st.RaftLeader
	}
	rank := map[string]int{"voter": 0, "standby": 1}
	slices.SortStableFunc(list, func(a, b memberView) int {
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

// now is this node, and the members that it knows.
func (h *handler) now() (nodeView, []memberView) {
	st := h.c.Status()
	members := viewMembers(st, h.c.Members())
	return viewNode(st, members), members
}

// statusView is what api/status answers.
type statusView struct {
	Node    nodeView     `json:"node"`
	Members []memberView `json:"members"` // those with a replica, and this node
	Total   int          `json:"members_total"`
}

func (h *handler) readStatus(context.Context, url.Values) (any, error) {
	node, members := h.now()
	return statusView{Node: node, Members: replicasOf(members), Total: len(members)}, nil
}

// replicasOf leaves out what would make the overview of a large fleet long.
func replicasOf(members []memberView) (list []memberView) {
	for _, m := range members {
		if len(members) <= 12 || m.Role != "client" || m.Local {
			list = append(list, m)
		}
	}
	return list
}

// membersView is a page of all members.
type membersView struct {
	Members []memberView `json:"members"`
	paging
}

func (h *handler) readMembers(_ context.Context, query url.Values) (any, error) {
	_, members := h.now()
	if q := strings.ToLower(query.Get("q")); q != "" {
		members = slices.DeleteFunc(members, func(m memberView) bool {
			return !strings.Contains(strings.ToLower(strings.Join([]string{m.Name, m.ID, m.Addr, m.Zone, m.Role, m.State}, " ")), q)
		})
	}
	page := pageOf(query, len(members))
	return membersView{Members: members[page.from:page.to], paging: page}, nil
}

// leaseView is a lease of this process.
type leaseView struct {
	Name      string    `json:"name"`
	Token     jsonToken `json:"token"`
	Remaining float64   `json:"remaining_seconds"`
	Wanted    bool      `json:"wanted"`
	Reason    string    `json:"wanted_reason"`
}

type jsonToken = holdfast.Token

type leasesView struct {
	Leases []leaseView `json:"leases"`
	paging
}

func (h *handler) readLeases(_ context.Context, query url.Values) (any, error) {
	all := h.c.Leases()
	if q := query.Get("q"); q != "" {
		all = slices.DeleteFunc(all, func(l *holdfast.Lease) bool { return !strings.Contains(l.Name(), q) })
	}
	v := leasesView{Leases: []leaseView{}, paging: pageOf(query, len(all))}
	for _, l := range all[v.from:v.to] {
		lease := leaseView{Name: l.Name(), Token: l.Token(), Remaining: *seconds(l.Remaining()), Reason: l.WantedReason()}
		select {
		case <-l.Wanted():
			lease.Wanted = true
		default:
		}
		v.Leases = append(v.Leases, lease)
	}
	return v, nil
}

// seconds are rounded to milliseconds.
func seconds(d time.Duration) *float64 {
	s := d.Round(time.Millisecond).Seconds()
	return &s
}

// statusOf is the status code for an error of the library.
func statusOf(err error) int {
	for _, known := range []struct {
		err  error
		code int
	}{
		{holdfast.ErrInvalid, http.StatusBadRequest}, {holdfast.ErrStaleToken, http.StatusConflict}, {holdfast.ErrHeld, http.StatusConflict},
		{holdfast.ErrNotRemoved, http.StatusConflict}, {holdfast.ErrExhausted, http.StatusTooManyRequests},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return http.StatusServiceUnavailable
}
