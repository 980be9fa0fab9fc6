package holdfast

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/node"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Found by real processes (seed 905): a node left while its calls were under way. The group forgot
// it, and the call whose command came after that answered "unexpected outcome stale incarnation",
// which no caller can understand.
func TestACallThatComesAfterTheGroupHasForgottenItsNodeSaysSo(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	held, err := c.Acquire(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.propose(ctx, fsm.Goodbye{Node: c.self.Node, Incarnation: c.self.Incarnation}); err != nil {
		t.Fatal(err)
	}
	if err := held.Set(ctx, []byte("late")); !errors.Is(err, ErrLost) {
		t.Errorf("Set answered %v", err)
	}
	if _, err := c.Acquire(ctx, "lock"); !errors.Is(err, ErrRemoved) {
		t.Errorf("on a node that does not know of it: %v", err)
	}
	if err := c.enter(ctx, seam.Request); err != nil {
		t.Fatal(err)
	}
	if err := c.node.(*node.Node).BeginLeave(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.attempt(ctx, "lock", true, options{ttl: time.Minute}); !errors.Is(err, ErrClosed) {
		t.Errorf("on a node that leaves: %v", err)
	}
}
