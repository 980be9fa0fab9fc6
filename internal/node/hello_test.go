package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// See TestANodeThatLeavesBeforeTheGroupHasHeardOfItIsNotTakenForACopy.
func TestAHelloThatComesAfterTheGoodbyeOfALeavingNodeFindsNoCopy(t *testing.T) {
	t.Parallel()
	n := opened(t, &heard{}, Config{})
	ctx := ready(t, n)
	if err := n.BeginLeave(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Proposer.Propose(ctx, seam.Urgent, fsm.Encode(fsm.Goodbye{Node: n.self.Node, Incarnation: n.self.Incarnation})); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := n.Hello(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Hello answered %v", err)
	}
	if failure, closing := n.Failure(); closing {
		t.Errorf("the node has failed: %v", failure)
	}
}
