package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// fleetStatus is what a client knows of its fleet, as JSON.
type fleetStatus struct {
	State      string  `json:"state"` // serving; without a majority there is no answer at all
	ClusterID  string  `json:"cluster_id"`
	RaftLeader string  `json:"raft_leader"`
	LeaderName string  `json:"raft_leader_name"`
	Term       uint64  `json:"term"`
	Voters     int     `json:"voters"`
	Standbys   int     `json:"standbys"`
	Level      uint64  `json:"level"`
	Plan       string  `json:"plan"`         // of the raft leader, where the replica that answers is that
	Read       float64 `json:"read_seconds"` // that a linearizable read took
	Locks      int     `json:"locks"`
	Held       int     `json:"held"`
	Waiters    int     `json:"waiters"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "Say whether the fleet serves, and how much it has to do",
		Long: "status asks the fleet by a linearizable read, which needs a majority of the voters. Without one, see\n" +
			"`holdfast members` and `holdfast doctor`.",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, _ []string) error {
			began := time.Now()
			if _, err := c.InspectOnce(ctx, "holdfast status"); err != nil {
				return err
			}
			v := statusOf(c.Status(), c.Members())
			v.Read = time.Since(began).Round(time.Microsecond).Seconds()
			for l, err := range c.Locks(ctx, "") {
				if err != nil {
					return err
				}
				v.Locks++
				v.Waiters += len(l.Waiters)
				if len(l.Holders) > 0 {
					v.Held++
				}
			}
			return a.one(v, func(w io.Writer) {
				io.WriteString(w, a.columns([][]string{
					{"STATE", "GROUP", "READ", "LOCKS", "HELD", "WAITERS"},
					{v.State, v.ClusterID, fmt.Sprintf("%.1f ms", v.Read*1000), view.Count(v.Locks), view.Count(v.Held), view.Count(v.Waiters)},
				}))
				fmt.Fprintf(w, "\nRaft leader %s, term %d; %s, %s; feature level %d\n", orDash(clean(v.LeaderName)), v.Term,
					view.Plural(v.Voters, "voter"), view.Plural(v.Standbys, "standby"), v.Level)
				if v.Plan != "" {
					fmt.Fprintf(w, "Plan: %s\n", clean(v.Plan))
				}
			})
		}),
	}
}

func statusOf(st holdfast.Status, seen []holdfast.Member) fleetStatus {
	node := view.OfNode(st, view.OfMembers(st, seen))
	return fleetStatus{
		State: "serving", ClusterID: st.ClusterID, RaftLeader: st.RaftLeader, LeaderName: node.LeaderName, Term: st.Term,
		Voters: len(st.Voters), Standbys: len(st.Standbys), Level: st.Level, Plan: st.Plan,
	}
}

// membersCommand also answers where the fleet does not serve: that is when its members matter most.
func (a *app) membersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "members", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "List the nodes of the fleet, their roles, and which of them are ill",
		Long: "members lists what the replica that answers knows: what gossip sees of each node, and what Raft hears of its\n" +
			"replica. Where the fleet does not serve it waits for --timeout, prints the list all the same, and ends with 69.\n" +
			"Nodes with ClientOnly are not listed, as they are not in the gossip.",
		RunE: a.does(func(ctx context.Context, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			unready := c.Ready(ctx)
			st := c.Status()
			members := slices.DeleteFunc(view.OfMembers(st, c.Members()), func(m view.Member) bool { return m.Local })
			if len(members) == 0 && unready != nil {
				return unready
			}
			err = list(a, valuesOf(members), []column[view.Member]{
				{"NAME", func(m view.Member) string { return orDash(m.Name) }},
				{"ROLE", roleText},
				{"STATE", stateText},
				{"HEARD", heardAgo},
				{"ZONE", func(m view.Member) string { return orDash(m.Zone) }},
				{"ADDRESS", func(m view.Member) string { return orDash(m.Addr) }},
				{"NODE", func(m view.Member) string { return m.ID }},
				{"VERSION", func(m view.Member) string { return orDash(m.Version) }},
			})
			if err != nil {
				return err
			}
			return unready
		}),
	}
}

func roleText(m view.Member) string {
	if m.RaftLeader {
		return m.Role + ", raft leader"
	}
	return m.Role
}

func stateText(m view.Member) string {
	if m.Ill != "" {
		return "ill: " + m.Ill
	}
	return m.State
}

func heardAgo(m view.Member) string {
	if m.Heard == nil {
		return "-"
	}
	return view.Words(*m.Heard) + " ago"
}

// sessionRow is a session, as JSON.
type sessionRow struct {
	NodeID  string  `json:"node_id"`
	Node    string  `json:"node"`
	Number  uint64  `json:"number"`
	TTL     float64 `json:"ttl_seconds"`
	Held    int     `json:"held"`
	Waiting int     `json:"waiting"`
}

func (a *app) sessionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sessions", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "List what each process has with the group: TTLs, and how many calls hold and wait",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, _ []string) error {
			sessions := rows(c.Sessions(ctx), func(s holdfast.Session) sessionRow {
				return sessionRow{s.NodeID, s.Node, s.Number, s.TTL.Seconds(), s.Held, s.Waiting}
			})
			return list(a, sessions, []column[sessionRow]{
				{"NAME", func(s sessionRow) string { return orDash(s.Node) }},
				{"NODE", func(s sessionRow) string { return s.NodeID }},
				{"SESSION", func(s sessionRow) string { return fmt.Sprint(s.Number) }},
				{"TTL", func(s sessionRow) string { return view.Words(s.TTL) }},
				{"HELD", func(s sessionRow) string { return view.Count(s.Held) }},
				{"WAITING", func(s sessionRow) string { return view.Count(s.Waiting) }},
			})
		}),
	}
}
