package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/fsm"
)

// ForceRelease ends the grant with this token without its holder's consent. reason, 1 to 1,024 bytes,
// reaches the holder as the cause of the loss, and every watch. ErrStaleToken means that no current
// grant has the token. The group may grant the lock to the next waiter before the holder learns of
// its loss: only the token keeps its late writes out. If an answer was lost, and the group does not
// remember how the grant ended, the error is ErrUnknownOutcome: the grant has ended in any case.
func (c *Cluster) ForceRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	out, unknown, err := c.propose(ctx, fsm.ForceRelease{Name: name, Token: uint64(token), Reason: reason})
	if err != nil || out.Code == fsm.CodeOK {
		return err
	}
	now := c.look(name, uint64(token))
	switch end := now.End; {
	case unknown && end == nil:
		return ErrUnknownOutcome
	case unknown && end.Kind == fsm.EventForced && end.Detail == reason: // by an earlier attempt
		return nil
	}
	return staleToken(name, token, now.Head)
}

// RequestRelease asks the holder with this token to release: it closes the holder's Lease.Wanted and
// sets Lease.WantedReason to reason, 1 to 1,024 bytes, as soon as the holder's node has applied the
// command. It ends no grant; ForceRelease does. The first reason stays: a second call changes
// nothing. ErrStaleToken means that no current grant has the token, perhaps since a moment ago.
func (c *Cluster) RequestRelease(ctx context.Context, name string, token Token, reason string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := checkText("reason", reason, 1, reasonMax); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	out, _, err := c.propose(ctx, fsm.Ask{Name: name, Token: uint64(token), Reason: reason})
	switch {
	case err != nil || out.Code == fsm.CodeOK:
		return err
	case out.Code == fsm.CodeStaleToken:
		return staleToken(name, token, c.look(name, 0).Head)
	}
	return refused(out)
}

// RevokeNode ends at once all grants of a node, and withdraws its waiters: an operator states by it
// that the node is dead, or must be treated as dead. nodeID is Cluster.ID of that node. reason, 1 to
// 1,024 bytes, reaches the holders as the cause of their loss, and every watch. Without RevokeNode
// the locks of a dead node are free at the end of their TTL.
//
// A process of the node that still runs may not learn of it in time: then two holders rely on a
// lock, and only the tokens keep the late writes of the first one out. RevokeNode may end grants
// that the node acquires before the answer; later ones stay. For a node without grants, or one that
// the group does not know, RevokeNode returns nil; so does a second call. Errors: ErrInvalid, and
// those of every call that asks the group.
func (c *Cluster) RevokeNode(ctx context.Context, nodeID, reason string) error {
	node, err := ordered(ctx, nodeID, reason)
	if err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	now, err := read(ctx, c, fsm.QueryGroup{})
	if err != nil {
		return err
	}
	out, _, err := c.propose(ctx, fsm.Revoke{Node: node, Upto: now.Commands, Reason: reason})
	if err == nil && out.Code != fsm.CodeOK {
		err = refused(out)
	}
	return err
}

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

// RemoveNode takes a dead node out of the group's membership now, instead of after
// Config.ReplaceAfter, or where the planner would keep it since nothing replaces it: by it an
// operator states that the node does not come back soon. nodeID is Cluster.ID of that node; reason,
// 1 to 1,024 bytes, is logged. RemoveNode returns nil when the node is out, or was before. It ends
// no session: the node's leases stay until their TTL (RevokeNode ends them). A removed node that
// comes back asks for a new replica, as one that was replaced.
//
// Errors: ErrInvalid for an empty reason, and for a node that the group has never known. A
// *RemoveError (ErrNotRemoved) if Raft hears the node, where Leave of the node itself is the way, or
// if it is the last voter. If ctx ends first, the error is that of the context, ErrUnknownOutcome,
// and ErrNoQuorum for a deadline: the raft leader may carry the order out for ten more seconds.
// Without a majority of the voters nothing can be removed.
func (c *Cluster) RemoveNode(ctx context.Context, nodeID, reason string) error {
	target, err := ordered(ctx, nodeID, reason)
	if err != nil {
		return err
	}
	return c.explain(c.node.RemoveNode(ctx, target, reason))
}

// TransferRaftLeader makes a voter raft leader, as before work on the machine of the present one, and
// returns when it is. nodeID is Cluster.ID of that node; reason, 1 to 1,024 bytes, is logged. No lease
// is touched. The group takes no commands for some milliseconds, and for an election timeout
// (Config.Timing) if the voter does not take over.
//
// Errors: ErrInvalid for an empty reason, and for a node that does not vote. ErrNotTransferred if the
// voter is not raft leader after three election timeouts: it lags behind, is ill, or cannot be reached.
// If ctx ends first, the error is that of the context, ErrUnknownOutcome, and ErrNoQuorum for a
// deadline.
func (c *Cluster) TransferRaftLeader(ctx context.Context, nodeID, reason string) error {
	target, err := ordered(ctx, nodeID, reason)
	if err != nil {
		return err
	}
	return c.explain(c.node.TransferRaftLeader(ctx, target, reason))
}

// ordered checks what an operator says about a node.
func ordered(ctx context.Context, nodeID, reason string) (target fsm.Node, err error) {
	if ctx == nil {
		return target, invalid("context", "is nil")
	}
	if target, err = fsm.ParseNode(nodeID); err != nil {
		return target, invalid("nodeID", "%q is not the id of a node", nodeID)
	}
	return target, checkText("reason", reason, 1, reasonMax)
}
