package seam

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
)

var (
	// ErrClosed: the node is being closed, or has failed.
	ErrClosed = errors.New("holdfast: the way to the group is closed")
	// ErrEnded: the node was closed, or leaves.
	ErrEnded = errors.New("holdfast: closed")
	// ErrRemoved: this node has said that it leaves, and the group has let it go.
	ErrRemoved = errors.New("holdfast: this node has left its group: open it again to join as a new one")
	// ErrYielded: the group of this node, which no other node ever joined, was given up.
	ErrYielded = errors.New("holdfast: this node's own group has yielded to another of its name")
	// ErrClockStopped: the clocks of this machine stood still.
	ErrClockStopped = errors.New("holdfast: the clocks of this machine stood still")
	// ErrIncompatible: another process runs or ran later as this node, or its group is newer.
	ErrIncompatible = errors.New("holdfast: incompatible")
	// ErrDirInUse: another node, in this or another process, has the data directory open.
	ErrDirInUse = errors.New("holdfast: data directory in use")
	// ErrDirDamaged: the content of the data directory cannot be trusted.
	ErrDirDamaged = errors.New("holdfast: data directory damaged")
	// ErrDirIncompatible: a newer version of Holdfast wrote the data directory, or a node of another
	// cluster name.
	ErrDirIncompatible = errors.New("holdfast: data directory incompatible")
	// ErrNoGroup: the node has no group to ask now.
	ErrNoGroup = errors.New("holdfast: there is no group now")
	// ErrCut: the replica that kept the state of earlier pages is gone.
	ErrCut = errors.New("holdfast: the replica is gone, and with it the state of which this was a part")
	// ErrSuperseded: the group that the command was meant for was given up.
	ErrSuperseded = errors.New("holdfast: group was given up")
	// ErrUnknownNode: no node of that id has ever belonged to the group, as far as that remembers.
	ErrUnknownNode = errors.New("holdfast: the group knows no such node")
	// ErrNotVoter: the node cannot be raft leader.
	ErrNotVoter = errors.New("holdfast: the node is no voter of the group")
	// ErrNotTransferred: the raft leadership stays where it is.
	ErrNotTransferred = errors.New("holdfast: the node has not become raft leader in time: it lags behind, is ill, or cannot be reached")
)

// OverloadError refuses a call because there are too many.
type OverloadError struct {
	Ended error // of the context, which ended while the call waited; nil: it was refused at once
}

func (e *OverloadError) Error() string { return "holdfast: too many calls are under way" }

// Unwrap returns the error of the context.
func (e *OverloadError) Unwrap() error { return e.Ended }

// UnreachedError is that of a call whose context ended before its outcome was known.
type UnreachedError struct {
	Ended error // of the context
}

func (e *UnreachedError) Error() string { return "holdfast: not reached: " + e.Ended.Error() }

// Unwrap returns the error of the context.
func (e *UnreachedError) Unwrap() error { return e.Ended }

// UnknownError is that of a call of which an attempt may have been, or may still be, carried out.
type UnknownError struct {
	Cause error
}

func (e *UnknownError) Error() string { return "holdfast: outcome unknown: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Cause }

// KeptError says that the raft leader refuses to remove a node.
type KeptError struct {
	Node   string
	Reason fsm.Reason // ReasonHeard or ReasonLast
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("holdfast: the raft leader does not remove node %s: %v", e.Node, e.Reason)
}

// RefusedError is what the group answered to a Hello that it did not accept.
type RefusedError struct{ Outcome fsm.Outcome }

func (e *RefusedError) Error() string {
	return "holdfast: the group does not accept this process: " + e.Outcome.Code.String()
}
