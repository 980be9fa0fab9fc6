package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// lockRow is a lock in the list, as JSON.
type lockRow struct {
	view.Row
	Since *string `json:"held_since"` // about, in RFC 3339; null: not known
}

func (a *app) locksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "locks [PREFIX]", GroupID: groupAsk, Args: cobra.MaximumNArgs(1),
		Short: "List the locks that have a holder, a waiter or a value",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
			now := time.Now()
			locks := rows(c.Locks(ctx, strings.Join(args, "")), func(l holdfast.LockInfo) lockRow {
				row := view.OfRow(l)
				return lockRow{row, since(now, row.Held)}
			})
			return list(a, locks, []column[lockRow]{
				{"NAME", func(r lockRow) string { return r.Name }},
				{"KIND", func(r lockRow) string { return r.Kind }},
				{"HOLDER", holderOfRow},
				{"TOKEN", func(r lockRow) string { return tokenText(r.Holder.Token) }},
				{"HELD", func(r lockRow) string { return heldText(r.Held, r.Holders > 0) }},
				{"WAITERS", func(r lockRow) string { return strconv.Itoa(r.Waiters) }},
			})
		}),
	}
}

func holderOfRow(r lockRow) string {
	switch {
	case r.Holders == 0 && r.Delayed > 0:
		return "nobody, delayed"
	case r.Holders == 0:
		return "-"
	case r.Limit > 0:
		return fmt.Sprintf("%s, %d of %d", r.Holder.Who(), r.Holders, r.Limit)
	case r.Holders > 1:
		return fmt.Sprintf("%s, and %d more", r.Holder.Who(), r.Holders-1)
	}
	return r.Holder.Who()
}

func tokenText(token holdfast.Token) string {
	if token == 0 {
		return "-"
	}
	return token.String()
}

// heldText is a time for people; 0 is not known.
func heldText(seconds float64, held bool) string {
	switch {
	case !held:
		return "-"
	case seconds == 0:
		return "?"
	}
	return view.Words(seconds)
}

func (a *app) lockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lock NAME", GroupID: groupAsk, Args: cobra.ExactArgs(1),
		Short: "Show a lock: holders, queue, past grants, value",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
			v, err := view.ReadLock(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.one(v, func(w io.Writer) { a.describe(w, v) })
		}),
	}
}

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", GroupID: groupAsk, Args: cobra.ExactArgs(1),
		Short: "Say why a caller does not get a lock",
		RunE: a.asks(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
			v, err := view.ReadLock(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.one(v, func(w io.Writer) {
				for _, line := range v.Why {
					fmt.Fprintln(w, clean(line))
				}
				for _, cycle := range v.Cycles {
					for i, wait := range cycle {
						next := cycle[(i+1)%len(cycle)]
						fmt.Fprintln(w, clean(fmt.Sprintf("  %s waits for %q, which %s holds", wait.Who(), wait.Name, next.Who())))
					}
				}
			})
		}),
	}
}

// describe writes all that is known of a lock, for people.
func (a *app) describe(w io.Writer, v view.Lock) {
	fmt.Fprintf(w, "%s (%s)\n", clean(v.Name), v.Kind)
	for _, line := range v.Why {
		fmt.Fprintln(w, clean(line))
	}
	now := time.Now()
	section := func(title string, head []string, rows [][]string) {
		if len(rows) > 0 {
			fmt.Fprintf(w, "\n%s\n%s", title, a.columns(append([][]string{head}, rows...)))
		}
	}
	var grants, queue, past [][]string
	for _, g := range v.Grants {
		at := "-"
		if s := since(now, g.Held); s != nil {
			at = *s
		}
		grants = append(grants, []string{g.Who(), g.NodeID, tokenText(g.Token), at, view.Words(g.Remaining), strconv.Itoa(g.Weight)})
	}
	for i, q := range v.Queue {
		queue = append(queue, []string{strconv.Itoa(i + 1), q.Who(), q.NodeID})
	}
	for _, p := range v.Past {
		if p.Reason == p.How {
			p.Reason = ""
		}
		past = append(past, []string{p.Who(), tokenText(p.Token), p.How, orDash(p.Reason), heldText(p.Held, p.Held > 0)})
	}
	first := func(title string, shown, of int) string {
		if shown < of {
			title = fmt.Sprintf("%s, the first %d of %d", title, shown, of)
		}
		return title
	}
	section(first("Holders", len(grants), v.Holders), []string{"HOLDER", "NODE", "TOKEN", "SINCE", "REMAINS", "PERMITS"}, grants)
	section(first("Queue", len(queue), v.Waiters), []string{"#", "WAITER", "NODE"}, queue)
	section("Past grants", []string{"HOLDER", "TOKEN", "ENDED", "REASON", "HELD"}, past)
	if v.HasValue {
		text, size := v.Text(), fmt.Sprint(v.ValueSize)
		if text != "" && len(text) < v.ValueSize {
			size = fmt.Sprintf("the first %d of %s", len(text), size)
		}
		fmt.Fprintf(w, "\nValue, %s bytes\n%s\n", size, orDash(clean(text)))
	}
}

func (a *app) onceCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "once [KEY]", GroupID: groupAsk, Args: cobra.MaximumNArgs(1),
		Short: "Say whether a Once key is running or finished, and where; without KEY, list the keys",
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "of the keys in the list")
	cmd.RunE = a.asks(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
		if len(args) == 0 {
			return a.onceKeys(ctx, c, prefix)
		}
		result, err := c.InspectOnce(ctx, args[0])
		if err != nil {
			return err
		}
		v := view.OfOnce(args[0], result)
		return a.one(v, func(w io.Writer) {
			switch v.State {
			case "unknown":
				fmt.Fprintln(w, "unknown: the next call runs it")
			default:
				fmt.Fprintf(w, "%s: by %s, with token %d\n", v.State, clean(v.Runner.Who()), v.Runner.Token)
			}
		})
	})
	return cmd
}

func (a *app) onceKeys(ctx context.Context, c *holdfast.Cluster, prefix string) error {
	return list(a, rows(c.OnceKeys(ctx, prefix), view.OfOnceKey), []column[view.Once]{
		{"KEY", func(r view.Once) string { return r.Key }},
		{"STATE", func(r view.Once) string { return r.State }},
		{"RUNNER", func(r view.Once) string { return r.Runner.Who() }},
		{"TOKEN", func(r view.Once) string { return tokenText(r.Runner.Token) }},
	})
}
