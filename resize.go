package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
)

// resizeAttempts is how often a call of ResizeLimit looks anew when others come before it.
const resizeAttempts = 16

// ResizeLimit gives a semaphore another limit, 1 to 1,048,576, while it is in use. From then on the
// limit before it is accepted as well: WithLimit of either is served under the new one, so a
// rolling update that changes the limit needs no pause. Any other value is ErrLimitMismatch. A
// second call with the same limit changes nothing.
//
// A larger limit serves waiters at once. A smaller one ends no lease: nothing more is granted until
// the weight in use fits. A call whose WithWeight is above the new limit gets ErrLimitMismatch, also
// a call that waits already. Watch yields an EventResized.
//
// The group remembers the limits when nobody uses the name any more, for the 4,096 names that were
// resized last, until the name is used with a third limit or as a lock. ErrInvalid: nobody uses the
// name and it is not remembered, so its next user says the limit. To resize it at such a time,
// acquire one permit under the limit before, resize, and release. ErrLimitMismatch: the name is in
// use as a lock. ErrExhausted: 4,096 semaphores in use were resized. ErrUnknownOutcome: answers were
// lost, or other nodes resized again and again meanwhile; the call is safe to repeat.
func (c *Cluster) ResizeLimit(ctx context.Context, name string, limit int) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if limit < 1 || limit > LimitMax {
		return invalid("limit", "%d is not 1 to %d", limit, LimitMax)
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	for range resizeAttempts {
		now, err := read(ctx, c, fsm.QueryGroup{})
		if err != nil {
			return err
		}
		out, _, err := c.propose(ctx, fsm.Resize{Name: name, Limit: uint32(limit), Seen: now.Commands})
		if err != nil {
			return err
		}
		switch out.Code {
		case fsm.CodeOK:
			return nil
		case fsm.CodeFinished: // another semaphore may be resized at the same time
			continue
		case fsm.CodeLimitMismatch:
			return &LimitError{Name: name, Asked: limit}
		case fsm.CodeNotHeld:
			return invalid("name", "nobody uses %q as a semaphore: its next user says the limit", name)
		}
		return refused(out)
	}
	return ErrUnknownOutcome
}
