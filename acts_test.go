package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/seam/seamtest"
	"github.com/holdfast-go/holdfast/internal/simenv"
)

// transferring is a node whose transfer of the raft leader is followed by a call.
type transferring struct {
	seam.Node
	after func()
}

func (n transferring) TransferRaftLeader(ctx context.Context, target fsm.Node, reason string) error {
	err := n.Node.TransferRaftLeader(ctx, target, reason)
	n.after()
	return err
}

// The context ended between the transfer and its record: the error was that of a transfer that did not happen.
func TestATransferWhoseRecordFailsHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	own := clock.System()
	g := seamtest.New(own.Now, fsm.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	env := simenv.Env{Clock: own, Node: func(l seam.Listener) seam.Node {
		return transferring{seamtest.NewNode(g, "n", log)(l), cancel}
	}}
	c, err := Open(simenv.With(t.Context(), env), Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.TransferRaftLeader(ctx, c.ID(), "a new kernel")
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.TransferRaftLeader(t.Context(), c.ID(), "a new kernel"); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAReasonNeedsNoContext(t *testing.T) {
	t.Parallel()
	//lint:ignore SA1012 a nil context must not panic
	ctx := ContextWithReason(nil, "x")
	if reason, err := reasonIn(ctx); reason != "x" || err != nil {
		t.Error(reason, err)
	}
}
