package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// quotaRow is a quota as tools see it; 0 is no bound.
type quotaRow struct {
	Done         string `json:"done,omitempty"`
	NodeID       string `json:"node_id,omitempty"` // "each": each node that has none of its own
	Prefix       string `json:"prefix,omitempty"`
	Locks        int    `json:"locks"`
	Waiters      int    `json:"waiters"`
	Sessions     int    `json:"sessions"`
	ValueBytes   int    `json:"value_bytes"`
	Bytes        int    `json:"bytes"`
	UsedLocks    int    `json:"used_locks"`
	UsedWaiters  int    `json:"used_waiters"`
	UsedSessions int    `json:"used_sessions"`
	UsedBytes    int    `json:"used_bytes"`
}

func rowOf(q holdfast.QuotaUse) quotaRow {
	return quotaRow{"", q.Node, q.Prefix, q.Locks, q.Waiters, q.Sessions, q.ValueBytes, q.Bytes, q.UsedLocks, q.UsedWaiters, q.UsedSessions, q.UsedBytes}
}

func (a *app) quotasCommand() *cobra.Command {
	return &cobra.Command{
		Use: "quotas", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "List the quotas of nodes and prefixes, and what is taken of them",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, _ []string) error {
			all, err := c.Quotas(ctx)
			if err != nil {
				return err
			}
			of := func(used, bound int) string {
				if bound == 0 {
					return "-"
				}
				return view.Count(used) + " of " + view.Count(bound)
			}
			return list(a, rows(valuesOf(all), rowOf), []column[quotaRow]{
				{"NODE", func(q quotaRow) string { return orDash(q.NodeID) }},
				{"PREFIX", func(q quotaRow) string { return orDash(q.Prefix) }},
				{"LOCKS", func(q quotaRow) string { return of(q.UsedLocks, q.Locks) }},
				{"WAITERS", func(q quotaRow) string { return of(q.UsedWaiters, q.Waiters) }},
				{"SESSIONS", func(q quotaRow) string { return of(q.UsedSessions, q.Sessions) }},
				{"BYTES", func(q quotaRow) string { return of(q.UsedBytes, q.Bytes) }},
				{"VALUE BYTES", func(q quotaRow) string { return orDash(view.Count(q.ValueBytes)) }},
			})
		}),
	}
}

func (a *app) quotaCommand() *cobra.Command {
	f, q := &actFlags{}, holdfast.Quota{}
	return a.act("quota --node ID | --prefix PREFIX --reason TEXT", "Bound what a node or the locks of a prefix may take",
		`quota sets the quota of one node, of each node that has none of its own (--node each), or of all locks whose names
begin with a prefix, instead of the one that it has. Without a bound it removes the quota. It ends nothing: what is above
the quota stays, and calls that would take more fail. The fleet must have feature level 2: a new one has it after an
hour (status says which).`, 0,
		func(flags *pflag.FlagSet) {
			flags.StringVar(&f.reason, "reason", "", "why: every watch and the logs have it (required)")
			flags.StringVar(&q.Node, "node", "", "the id of a node, or each")
			flags.StringVar(&q.Prefix, "prefix", "", "of the names of locks")
			flags.IntVar(&q.Locks, "locks", 0, "of a node, what it holds and waits for; of a prefix, names in use")
			flags.IntVar(&q.Waiters, "waiters", 0, "calls that wait")
			flags.IntVar(&q.Sessions, "sessions", 0, "of a node alone")
			flags.IntVar(&q.ValueBytes, "value-bytes", 0, "of each value")
			flags.IntVar(&q.Bytes, "bytes", 0, "of all values together, each in whole KiB")
		},
		func(_ context.Context, c *holdfast.Cluster, _ []string) (*deed, error) {
			done := rowOf(holdfast.QuotaUse{Quota: q})
			done.Done = "quota"
			return &deed{
				do:   func(ctx context.Context) error { return c.SetQuota(ctx, q, f.reason) },
				said: fmt.Sprint("the quota of ", q),
				done: done,
			}, f.checkReason()
		})
}
