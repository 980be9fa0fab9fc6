package session

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fsm"
)

// The errors that a lease ends with. The root package has them under the same names.
var (
	// ErrLost: the lease ended before it was released; its cause is wrapped.
	ErrLost = errors.New("holdfast: lease lost")
	// ErrReleased: the lease was released by its holder.
	ErrReleased = errors.New("holdfast: lease released")
	// ErrExpired: the lease could not be renewed in time.
	ErrExpired = errors.New("holdfast: lease not renewed in time")
	// ErrForced: an operator released the lock.
	ErrForced = errors.New("holdfast: released by force")
)

// ErrBusy: the session has OpenMax unfinished calls.
var ErrBusy = errors.New("holdfast: too many unfinished calls")

// errFull: the session has ClaimsMax, and the call belongs on another one.
var errFull = errors.New("holdfast: session is full")

// Lost wraps the cause of a loss; the result is both ErrLost and cause.
func Lost(cause error) error {
	if cause == nil {
		return ErrLost
	}
	return fmt.Errorf("%w: %w", ErrLost, cause)
}

func forced(detail string) error { return fmt.Errorf("%w: %s", ErrForced, detail) }

// causeOf is why the group ended a session.
func causeOf(r fsm.Reason, detail string) error {
	switch r {
	case fsm.ReasonClosed, fsm.ReasonAbandoned:
		return ErrReleased
	case fsm.ReasonIncarnation:
		return fmt.Errorf("holdfast: a later process of this node has taken its data directory over: %w", ErrExpired)
	case fsm.ReasonRevoked:
		return forced(detail)
	}
	return ErrExpired
}
