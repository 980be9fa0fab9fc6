package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/proposer"
)

// What follows is the proposer, with the errors of the API.

// enter waits for a turn.
func (c *Cluster) enter(ctx context.Context, queue *proposer.Admission) error {
	return c.apiError(c.proposer.Enter(ctx, queue))
}

// admitted is propose after enter.
func (c *Cluster) admitted(ctx context.Context, queue *proposer.Admission, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	out, unknown, err = c.proposer.Admitted(ctx, queue, cmd)
	return out, unknown, c.apiError(err)
}

// propose brings a command of somebody who has a lock to the group. unknown says whether an attempt
// may have been carried out.
func (c *Cluster) propose(ctx context.Context, cmd fsm.Command) (out fsm.Outcome, unknown bool, err error) {
	out, unknown, err = c.proposer.Propose(ctx, cmd)
	return out, unknown, c.apiError(err)
}

// insist is propose for what must not wait behind callers.
func (c *Cluster) insist(ctx context.Context, cmd fsm.Command) (fsm.Outcome, error) {
	out, _, err := c.proposer.Insist(ctx, fsm.Encode(cmd))
	return out, c.apiError(err)
}

// pause waits a little, longer after more attempts, and less if changed is closed.
func (c *Cluster) pause(ctx context.Context, attempts int, changed <-chan struct{}) error {
	return c.apiError(c.proposer.Pause(ctx, attempts, changed))
}

// barrier returns the group when the local replica has applied everything that was committed before
// the call.
func (c *Cluster) barrier(ctx context.Context) (*consensus.Group, error) {
	group, err := c.proposer.Barrier(ctx)
	return group, c.apiError(err)
}
