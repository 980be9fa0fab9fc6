//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/crew"
)

func TestMain(m *testing.M) { crew.TestMain(m, main) }

// The story is the test: it checks itself.
func TestEveryTickRunsOnceOverFailOverAndHandOver(t *testing.T) {
	t.Parallel()
	if err := show(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The first leader noted nothing before its first tick was done: where it died in that, nobody ran the tick.
func TestTheFirstTickIsMadeGoodByTheNextLeader(t *testing.T) {
	t.Parallel()
	c, err := holdfast.Open(t.Context(), holdfast.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	schedule, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		err := c.Lead(ctx, "scheduler", func(ctx context.Context, l *holdfast.Lease) error {
			return lead(ctx, c, l, schedule, func(ctx context.Context, key string, _ holdfast.Token) error {
				keys = append(keys, key)
				stop() // as if it died
				return context.Cause(ctx)
			})
		})
		stop()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("the leaders ran %v", keys)
	}
}
