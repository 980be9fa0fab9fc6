package consensus

import (
	"errors"
	"fmt"
)

var (
	// ErrNotProposed says that the command is not in the log and never will be, whatever it wraps.
	// It may be proposed again.
	ErrNotProposed = errors.New("holdfast: not proposed")
	// ErrUnknown says that the command may be in the log and may be applied later, or never. It may
	// be proposed again only if it is idempotent.
	ErrUnknown = errors.New("holdfast: outcome unknown")
	// ErrClosed answers every call after Close has begun.
	ErrClosed = errors.New("holdfast: raft group is closed")
	// ErrRemoved answers calls on a replica that was removed from the group: it can never serve
	// again.
	ErrRemoved = errors.New("holdfast: replica was removed from the group")
	// ErrMembershipChanged says that the membership is not the one that the caller had seen, or
	// that the group refuses the change.
	ErrMembershipChanged = errors.New("holdfast: membership changed meanwhile")
	// ErrInvalid answers a Config or an argument that makes no sense; the message names it.
	ErrInvalid = errors.New("holdfast: invalid")
	// ErrNoReplica answers StartRestart when the directory has no data of this replica: its disk
	// was lost. The node must come back as a new one.
	ErrNoReplica = errors.New("holdfast: the directory has no data of this replica")
	// ErrOtherStart answers StartBootstrap or StartJoin on a directory whose replica was started
	// the other way.
	ErrOtherStart = errors.New("holdfast: the replica was first started the other way")
	// ErrForeign answers a directory that another node, another cluster or a newer version has
	// written.
	ErrForeign = errors.New("holdfast: the raft directory is not this node's")
	// ErrDamaged says that what the directory holds is not what was written there, or not all of
	// it. It must not be used any more: its replica would forget votes and entries.
	ErrDamaged = errors.New("holdfast: raft directory damaged")
	// ErrSuperseded is the cause when another process of this node is known to the group that began
	// later than this one, or as late: one of the two runs on an older copy of the directory.
	ErrSuperseded = errors.New("holdfast: superseded by another process of this node")
	// ErrForgetful is the cause when this process began with less in its directory than its node
	// has promised to others: an older copy was put back.
	ErrForgetful = errors.New("holdfast: the directory is older than what its node has promised to others")
	// ErrUnsupported is the cause when a command in the log is newer than this program.
	ErrUnsupported = errors.New("holdfast: the log has a command that this version does not know: upgrade this node")
	// ErrInvariant is the cause when the Raft engine found its own state broken.
	ErrInvariant = errors.New("holdfast: raft invariant broken")
	// ErrAbandoned answers Close when the engine did not stop in time: what is left of it is idle
	// for ever.
	ErrAbandoned = errors.New("holdfast: the raft engine did not stop in time and was abandoned")
)

// FailedError answers every call on a group that has stopped for good, and is what Failure and
// Observer.Failed say.
type FailedError struct{ Cause error }

// Error names the cause.
func (e *FailedError) Error() string {
	return fmt.Sprintf("holdfast: replica has stopped for good: %v", e.Cause)
}

// Unwrap is the cause.
func (e *FailedError) Unwrap() error { return e.Cause }
