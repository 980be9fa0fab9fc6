package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// fleetStatus is what a client knows of its fleet, as JSON.
type fleetStatus struct {
	State     string  `json:"state"` // serving; without a majority there is no answer at all
	ClusterID string  `json:"cluster_id"`
	Read      float64 `json:"read_seconds"` // that a linearizable read took
	Locks     int     `json:"locks"`
	Held      int     `json:"held"`
	Waiters   int     `json:"waiters"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", GroupID: groupAsk, Args: cobra.NoArgs,
		Short: "Say whether the fleet serves, and how much it has to do",
		Long: "status asks the fleet by a linearizable read, which needs a majority of the voters. What only a node with\n" +
			"a replica knows, as its members, their roles and the raft leader, is on the page of package httpstatus.",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, _ []string) error {
			began := time.Now()
			if _, err := c.InspectOnce(ctx, "holdfast status"); err != nil {
				return err
			}
			v := fleetStatus{State: "serving", Read: time.Since(began).Round(time.Microsecond).Seconds(), ClusterID: c.Status().ClusterID}
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
			})
		}),
	}
}
