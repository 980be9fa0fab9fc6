package consensus

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
)

var (
	// ErrNotProposed means that the command is not in the log and never will be, whatever it wraps.
	// It may be proposed again.
	ErrNotProposed = errors.New("holdfast: not proposed")
	// ErrUnknown means that the command may be in the log, and may be applied later. It may be
	// proposed again only if it is idempotent.
	ErrUnknown = errors.New("holdfast: outcome unknown")
	// ErrClosed is the error of each call after Close has begun.
	ErrClosed = errors.New("holdfast: raft group is closed")
	// ErrRemoved is the error of calls on a replica that was removed from the group, for good.
	ErrRemoved = errors.New("holdfast: replica was removed from the group")
	// ErrMembershipChanged means that the membership is not the one that the caller had seen, or
	// that the group refuses the change.
	ErrMembershipChanged = errors.New("holdfast: membership changed meanwhile")
	// ErrInvalid is the error for an invalid Config or argument, which the message names.
	ErrInvalid = errors.New("holdfast: invalid")
	// ErrNoReplica is the error of StartRestart when the directory has no data of this replica: its
	// disk was lost. The node must come back as a new one.
	ErrNoReplica = errors.New("holdfast: the directory has no data of this replica")
	// ErrOtherStart is the error of StartBootstrap or StartJoin on a directory whose replica was
	// started the other way.
	ErrOtherStart = errors.New("holdfast: the replica was first started the other way")
	// ErrForeign is the error for another replica's directory, ErrDamaged for one that has lost
	// data.
	ErrForeign, ErrDamaged = store.ErrForeign, store.ErrDamaged
	// ErrSuperseded, ErrForgetful and ErrAhead are the causes when other replicas refuse this one.
	ErrSuperseded, ErrForgetful, ErrAhead = wire.ErrSuperseded, wire.ErrForgetful, wire.ErrAhead
	// ErrInvariant is the cause when the engine found its own state broken.
	ErrInvariant = engine.ErrInvariant
	// ErrUnsupported is the cause when the group, or a command in its log, is newer than this program.
	ErrUnsupported = errors.New("holdfast: the group is newer than this version: upgrade this node")
	// ErrLevel is the error of Propose for a command above the feature level of the group: it is not
	// in the log, and every attempt ends so until the level has risen.
	ErrLevel = errors.New("holdfast: the feature level of the group is too low")
	// ErrAbandoned is the error of Close when the engine did not stop in time. Its goroutines are
	// parked forever.
	ErrAbandoned = errors.New("holdfast: the raft engine did not stop in time and was abandoned")
)

// FailedError is the error of each call on a group that has stopped for good, and of Failure and
// Observer.Failed.
type FailedError struct{ Cause error }

// Error names the cause.
func (e *FailedError) Error() string {
	return fmt.Sprintf("holdfast: replica has stopped for good: %v", e.Cause)
}

// Unwrap is the cause.
func (e *FailedError) Unwrap() error { return e.Cause }
