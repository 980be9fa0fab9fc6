// Package report is what a group tells those above it: its errors, its figures and its timing. It
// imports nothing of the engine, so that a program without a replica links none (docs/internals/decisions.md).
package report

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/tally"
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
	// ErrNoReplica is the error of StartRestart when the directory has no data of this replica: its
	// disk was lost. The node must come back as a new one.
	ErrNoReplica = errors.New("holdfast: the directory has no data of this replica")
	// ErrOtherStart is the error of StartBootstrap or StartJoin on a directory whose replica was
	// started the other way.
	ErrOtherStart = errors.New("holdfast: the replica was first started the other way")
	// ErrForeign is the error for a directory that another node, another cluster or a newer version
	// has written.
	ErrForeign = errors.New("holdfast: the raft directory is not this node's")
	// ErrDamaged is the error for a directory that has lost or changed data. It must not be used
	// any more: its replica would forget votes and entries.
	ErrDamaged = errors.New("holdfast: raft directory damaged")
	// ErrUnsupported is the cause when the group, or a command in its log, is newer than this program.
	ErrUnsupported = errors.New("holdfast: the group is newer than this version: upgrade this node")
	// ErrLevel is the error of Propose for a command above the feature level of the group: it is not
	// in the log, and every attempt ends so until the level has risen.
	ErrLevel = errors.New("holdfast: the feature level of the group is too low")
	// ErrInvariant is the cause when the engine found its own state broken.
	ErrInvariant = errors.New("holdfast: raft invariant broken")

	// ErrSuperseded is the cause when the group knows another process of this node that began later
	// than this one, or as late: one of the two runs on an older copy of the directory.
	ErrSuperseded = errors.New("holdfast: superseded by another process of this node")
	// ErrForgetful is the cause when this process began with less in its directory than its node
	// has promised to others: an older copy was put back.
	ErrForgetful = errors.New("holdfast: the directory is older than what its node has promised to others")
	// ErrAhead is the cause when this replica has acknowledged to the raft leader what that never
	// sent: the others have forgotten entries that this one knows to be committed.
	ErrAhead = errors.New("holdfast: the directory has committed entries that the other voters have forgotten: older copies of theirs were put back")
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

// Figures count for the replicas of a node, one after the other.
type Figures struct {
	Committed atomic.Uint64   // index of the last entry that this replica knows to be committed
	Fsync     tally.Histogram // a write of the log, until it is on the disk
	Commit    tally.Histogram // an entry proposed here, until it was carried out here
	Taken     tally.Transfers // snapshots that were written
	Installed tally.Transfers // snapshots that were read
	Traffic   tally.Traffic
}

// Pace returns the timing of a group, with defaults for zeros: see docs/internals/benchmarks.md.
func Pace(tick, heartbeat, election time.Duration) (_, _, _ time.Duration) {
	tick = cmp.Or(tick, 50*time.Millisecond)
	heartbeat = cmp.Or(heartbeat, 2*tick)
	return tick, heartbeat, cmp.Or(election, 3*heartbeat)
}
