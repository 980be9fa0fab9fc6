//go:build unix

package fencetest

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// A cluster that was lost with all its data, and whose successor's clock is behind, would give
// tokens that the resource refuses for years. The resource is asked where to begin.
func TestANewClustersTokensBeginAboveTheMarksOfItsResources(t *testing.T) {
	t.Parallel()
	const seen = fence.TokenMax / 2 // far above any clock
	ctx := t.Context()
	d := database{dialect: fence.SQLite, driver: "sqlite", dsn: "file:" + filepath.Join(t.TempDir(), "test.db")}
	guard := d.guard(t, d.open(t), "fence")
	if err := guard.Check(ctx, "orders", seen); err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.Open(ctx, holdfast.Config{TokenFloor: guard.Floor})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Acquire(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(ctx)
	if err := guard.CheckOnce(ctx, "orders", lease.Token()); err != nil {
		t.Errorf("the first token of the new cluster: %v", err)
	}
}
