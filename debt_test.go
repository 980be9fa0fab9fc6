package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// failingGroup fails the first command which no caller waits for.
type failingGroup struct {
	seam.Group
	failed *atomic.Bool
}

func (g failingGroup) Propose(ctx context.Context, class seam.Class, cmd []byte) (fsm.Outcome, bool, error) {
	if class == seam.Urgent && !g.failed.Swap(true) {
		return fsm.Outcome{}, false, errors.New("the replica has failed")
	}
	return g.Group.Propose(ctx, class, cmd)
}

// What a node owed the group was dropped when its client's replica failed: the lock stayed held while its
// process lived.
func TestALockIsFreeThoughTheReplicaFailsThatIsToldOfItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Bool
		failed.Store(true) // not yet
		c := openAround(t, slog.New(slog.DiscardHandler), func(g seam.Group) seam.Group { return failingGroup{g, &failed} })
		defer c.Close()
		l, err := c.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Acquire(t.Context(), "y"); err != nil { // keeps the session
			t.Fatal(err)
		}
		over, end := context.WithCancel(t.Context())
		end()
		failed.Store(false)
		_ = l.Release(over)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Acquire(ctx, "x"); err != nil {
			t.Error(err)
		}
		if !failed.Load() {
			t.Error("the test is void: nothing failed")
		}
	})
}
