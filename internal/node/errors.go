package node

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/seam"
)

// How a node ends, beside the errors of its parts. The API has the same values.
var (
	// ErrClosed: the node was closed, or leaves.
	ErrClosed = seam.ErrEnded
	// ErrRemoved: this node has said that it leaves, and the group has let it go.
	ErrRemoved = errors.New("holdfast: this node has left its group: open it again to join as a new one")
	// ErrYielded: the group of this node, which no other node ever joined, was given up.
	ErrYielded = errors.New("holdfast: this node's own group has yielded to another of its name")
	// ErrClockStopped: the clocks of this machine stood still.
	ErrClockStopped = errors.New("holdfast: the clocks of this machine stood still")
	// ErrIncompatible: another process runs or ran later as this node, or its group is newer.
	ErrIncompatible = errors.New("holdfast: incompatible")
)

// errOut ends the service of a replica that the group has removed.
var errOut = errors.New("holdfast: the replica was removed")

// RefusedError is what the group answered to a Hello that it did not accept.
type RefusedError = seam.RefusedError

// unreached is the error of an operation whose context ended before its outcome was known.
func unreached(ctx context.Context) error { return &seam.UnreachedError{Ended: ctx.Err()} }
