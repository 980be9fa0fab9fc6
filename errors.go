package holdfast

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/session"
)

// The conditions that a caller branches on, with errors.Is.
var (
	// ErrHeld: somebody else has the lock. The error is a *HeldError.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost: the lease ended before it was released; its cause is wrapped.
	ErrLost = session.ErrLost
	// ErrReleased: the lease was released by its holder.
	ErrReleased = session.ErrReleased
	// ErrStaleToken: the token is not that of a current grant.
	ErrStaleToken = errors.New("holdfast: stale token")
	// ErrNoLeader: nobody leads the election now.
	ErrNoLeader = errors.New("holdfast: no leader")
	// ErrNoQuorum: a majority of the voters could not be reached in time.
	ErrNoQuorum = errors.New("holdfast: no quorum")
	// ErrUnknownOutcome: the operation may or may not have happened; it is safe to repeat.
	ErrUnknownOutcome = errors.New("holdfast: outcome unknown")
	// ErrClosed: the cluster was closed.
	ErrClosed = errors.New("holdfast: closed")
	// ErrInvalid: an argument or a configuration field is not acceptable. The error is a *FieldError.
	ErrInvalid = errors.New("holdfast: invalid argument")
	// ErrLimitMismatch: the lock is in use with another limit.
	ErrLimitMismatch = errors.New("holdfast: limit differs from that of the current holders")
	// ErrIncompatible: this node and its group or its data directory are of versions or kinds that do not fit.
	ErrIncompatible = errors.New("holdfast: incompatible")
	// ErrDamaged: the data directory does not hold what was written there, or not all of it. Its replica must
	// never vote again: delete the directory, and the node comes back as a new one.
	ErrDamaged = datadir.ErrDamaged
	// ErrDirInUse: another node, in this process or another, has the data directory open.
	ErrDirInUse = datadir.ErrInUse
	// ErrExhausted: a bound of the group or of this node is reached. The error is a *ExhaustedError.
	ErrExhausted = errors.New("holdfast: limit reached")
	// ErrMaxHold: the lease ended because its time under WithMaxHold was over.
	ErrMaxHold = errors.New("holdfast: maximum hold time reached")
	// ErrExpired: the lease could not be renewed in time.
	ErrExpired = session.ErrExpired
	// ErrRemoved: this node has said that it leaves, and the group has let it go. Open its directory again, and it
	// joins as a new node. A node that the group has replaced while it was away comes back by itself, as the same
	// node: that is no error.
	ErrRemoved = errors.New("holdfast: this node has left its group: open it again to join as a new one")
	// ErrYielded: the group of this node, which nobody but it ever joined, was given up for another of its name, which
	// the node joins. Leases end with it; calls that come later wait for the other group.
	ErrYielded = errors.New("holdfast: this node's own group has yielded to another of its name")
	// ErrDeadlock: under WithDeadlockCheck, waiting would have closed a cycle of callers that wait for each other.
	ErrDeadlock = errors.New("holdfast: waiting would be a deadlock")
	// ErrForced: an operator released the lock with ForceRelease.
	ErrForced = session.ErrForced
)

// HeldError says who has a lock that could not be had. errors.Is(err, ErrHeld) holds for it.
type HeldError struct {
	Name    string
	Holder  Holder
	Token   Token // the holder's
	Waiters int   // how many wait for the lock, as far as known
}

func (e *HeldError) Error() string {
	who := e.Holder.Node
	if who == "" {
		who = e.Holder.NodeID
	}
	if who == "" {
		return fmt.Sprintf("holdfast: lock %q is held", e.Name)
	}
	if e.Holder.Label != "" {
		who += " (" + e.Holder.Label + ")"
	}
	return fmt.Sprintf("holdfast: lock %q is held by %s with token %d, %d waiting", e.Name, who, e.Token, e.Waiters)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// FieldError names the argument, option or configuration field that is not acceptable.
// errors.Is(err, ErrInvalid) holds for it.
type FieldError struct {
	Field   string // as the caller wrote it: "name", "WithTTL", "Config.Voters"
	Problem string
}

func (e *FieldError) Error() string { return "holdfast: invalid " + e.Field + ": " + e.Problem }

// Is reports whether target is ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// ExhaustedError names the bound that is reached. errors.Is(err, ErrExhausted) holds for it.
type ExhaustedError struct {
	What  string // of which there are too many
	Limit int    // the bound, 0 where it is no plain number
}

func (e *ExhaustedError) Error() string {
	if e.Limit == 0 {
		return "holdfast: limit reached: " + e.What
	}
	return fmt.Sprintf("holdfast: limit reached: %s, at most %d", e.What, e.Limit)
}

// Is reports whether target is ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// lost wraps the cause of a loss; the result is both ErrLost and cause.
func lost(cause error) error { return session.Lost(cause) }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
