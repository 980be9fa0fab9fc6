package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/view"
)

// watchEvent is an event, as JSON.
type watchEvent struct {
	At string `json:"at"` // when this command heard of it, in RFC 3339
	view.Event
}

func (a *app) watchCommand() *cobra.Command {
	count := 0
	cmd := &cobra.Command{
		Use: "watch [PREFIX]", GroupID: groupAsk, Args: cobra.MaximumNArgs(1),
		Short: "Print what happens to locks, as it happens",
		Long: "watch prints every event of the locks whose names begin with PREFIX, until it is ended by a signal.\n" +
			"With -o json or jsonl each event is one line. An event of the kind resync says that events are missing.",
	}
	cmd.Flags().IntVar(&count, "count", 0, "end after so many events (default: at a signal)")
	cmd.RunE = a.joined(func(ctx context.Context, c *holdfast.Cluster, args []string) error {
		err := a.watch(ctx, c, strings.Join(args, ""), count)
		if errors.Is(err, context.Canceled) {
			return nil // as asked
		}
		return err
	})
	return cmd
}

func (a *app) watch(ctx context.Context, c *holdfast.Cluster, prefix string, count int) error {
	seen := 0
	events := c.Watch(ctx, prefix)
	a.say("watching %q", clean(prefix))
	for e, err := range events {
		if err != nil {
			return err
		}
		if err := a.printEvent(watchEvent{time.Now().UTC().Format(time.RFC3339Nano), view.OfEvent(e)}); err != nil {
			return err
		}
		if seen++; seen == count {
			return nil
		}
	}
	return nil
}

func (a *app) printEvent(e watchEvent) error {
	if a.format != "table" {
		a.format = "jsonl" // a stream has no end to close an array with
		return a.printJSON(e)
	}
	who := ""
	if e.Act != "" {
		who = " " + e.Act + " by node " + e.By
	}
	if e.NodeID != "" {
		who += " " + e.Who()
	}
	if e.Token != 0 {
		who += fmt.Sprintf(", token %d", e.Token)
	}
	if e.Reason != "" && e.Reason != e.Kind {
		who += " (" + e.Reason + ")"
	}
	_, err := fmt.Fprintf(a.out, "%s  %-9s  %s%s\n", e.At, e.Kind, clean(e.Name), clean(who))
	return err
}
