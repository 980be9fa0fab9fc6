//go:build unix

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/crew"
	"github.com/holdfast-go/holdfast/internal/servers"
)

func TestMain(m *testing.M) { crew.TestMain(m, main) }

// The story is the test: it fails if anything is lost with a guard, and if nothing is lost without.
func TestUpdatesAreLostWithoutTheGuardsAndNoneWithThem(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			err := show(t.Context(), options{rounds: 3, database: database, ttl: time.Second})
			if errors.Is(err, servers.ErrNotInstalled) {
				t.Skipf("skipped: %v on this machine", err)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
