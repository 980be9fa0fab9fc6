// Package migrationtest is what the tests of contrib/gooselock and contrib/migratelock have in
// common: runs that overlap, and migrations that leave a trace.
package migrationtest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Patience is far more than anything there takes.
const Patience = 90 * time.Second

// AwaitWaiters returns when the lock has one holder and so many others wait for it. Two holders are
// an error at once.
func AwaitWaiters(ctx context.Context, c *holdfast.Cluster, lock string, waiters int) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	changes := c.Watch(ctx, lock) // begins here: what Inspect does not see yet comes as a change
	awaited := func() (bool, error) {
		info, err := c.Inspect(ctx, lock)
		if err == nil && len(info.Holders) != 1 {
			err = fmt.Errorf("%d hold the lock", len(info.Holders))
		}
		return len(info.Waiters) == waiters, err
	}
	if yes, err := awaited(); yes || err != nil {
		return err
	}
	for _, err := range changes {
		if err != nil {
			return err
		}
		if yes, err := awaited(); yes || err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// WantSteps asserts which migrations have left their trace in the table steps, in order.
func WantSteps(t *testing.T, db *sql.DB, want ...int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT step FROM steps ORDER BY step")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []int
	for rows.Next() {
		var step int
		if err := rows.Scan(&step); err != nil {
			t.Fatal(err)
		}
		got = append(got, step)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || rows.Err() != nil {
		t.Errorf("steps %v, want %v; %v", got, want, rows.Err())
	}
}
