//go:build unix

package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/fleet/scheduler"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

// serve is one process, the scheduler with a node of its own, until its standard input ends, which
// happens also when the story-teller dies.
func serve(ctx context.Context, name, dir string, ttl time.Duration) error {
	ctx, c, err := crew.Join(ctx, name, dir, func(cfg *holdfast.Config) { cfg.TTL = ttl })
	if err != nil {
		return crew.IgnoreEnd(ctx, err)
	}
	defer crew.Leave(c) // also after SIGTERM, which ends ctx
	crew.Tell(crew.Report{Event: "ready", Text: c.ID()})

	records, err := openLedger(dir)
	if err != nil {
		return err
	}
	defer records.close()
	err = scheduler.Service{Name: name, Ledger: records, Tell: func(e scheduler.Event) {
		crew.Tell(crew.Report{Event: e.Kind, Token: e.Token, N: e.N, Text: e.Text})
	}}.Run(ctx, c)
	return crew.IgnoreEnd(ctx, err)
}
