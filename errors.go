package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/client"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/feed"
	"github.com/holdfast-go/holdfast/internal/proposer"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/transport"
)

// The conditions that a caller branches on, with errors.Is.
var (
	// ErrHeld: another holder has the lock. The error is a *HeldError.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost: the lease ended before it was released; its cause is wrapped.
	ErrLost = session.ErrLost
	// ErrReleased: the lease was released by its holder.
	ErrReleased = session.ErrReleased
	// ErrStaleToken: the token is not that of a current grant. It is fence.ErrStale.
	ErrStaleToken = fence.ErrStale
	// ErrNoLeader: the election has no leader now.
	ErrNoLeader = errors.New("holdfast: no leader")
	// ErrNoQuorum: a majority of the voters could not be reached in time.
	ErrNoQuorum = errors.New("holdfast: no quorum")
	// ErrUnknownOutcome: the operation may or may not have happened; it is safe to repeat.
	ErrUnknownOutcome = errors.New("holdfast: outcome unknown")
	// ErrClosed: the cluster was closed.
	ErrClosed = seam.ErrEnded
	// ErrInvalid: an argument or a configuration field is not acceptable. The error is a
	// *FieldError. It is fence.ErrInvalid.
	ErrInvalid = fence.ErrInvalid
	// ErrLimitMismatch: the name is in use as another kind than the call asks for: as a lock
	// instead of a semaphore or the reverse, or as a semaphore with another limit. The error is a
	// *LimitError.
	ErrLimitMismatch = errors.New("holdfast: the name is in use with another limit")
	// ErrIncompatible: this node does not match its group or its data directory: another version,
	// or another kind of data.
	ErrIncompatible = seam.ErrIncompatible
	// ErrLevel: the call needs a higher feature level than that of the group (Status.Level). It has had
	// no effect, and succeeds once the level has risen.
	ErrLevel = report.ErrLevel
	// ErrDamaged: the data directory has lost or changed what was written there. Its replica must
	// never vote again: delete the directory, and the node comes back as a new one. If a majority of the
	// voters is told this, delete none, and recover the group from the newest (Recover).
	ErrDamaged = seam.ErrDirDamaged
	// ErrDirInUse: another node, in this process or another, has the data directory open.
	ErrDirInUse = seam.ErrDirInUse
	// ErrExhausted: a bound of the group or of this node is reached. The error is a
	// *ExhaustedError.
	ErrExhausted = errors.New("holdfast: limit reached")
	// ErrMaxHold: the lease ended because its time under WithMaxHold was over.
	ErrMaxHold = errors.New("holdfast: maximum hold time reached")
	// ErrExpired: the lease could not be renewed in time. Without ErrLost, from a call that acquires and
	// whose deadline is over: the last answer of the group came after the TTL, and no lease was begun.
	ErrExpired = session.ErrExpired
	// ErrRemoved: this node has left, and the group has removed it. Open its directory again, and it
	// joins as a new node. A node that the group has replaced while it was away comes back by
	// itself, as the same node, without an error.
	ErrRemoved = seam.ErrRemoved
	// ErrNotRemoved: the raft leader refuses to remove a node. The error is a *RemoveError.
	ErrNotRemoved = errors.New("holdfast: the node is not removed")
	// ErrNotTransferred: a voter was to become raft leader, and has not taken over in time. The former
	// raft leader goes on.
	ErrNotTransferred = errors.New("holdfast: the raft leadership is not transferred")
	// ErrYielded: the group of this node, which no other node ever joined, was given up for another
	// of its name, which the node joins. Leases end with it; later calls wait for the other group.
	ErrYielded = seam.ErrYielded
	// ErrClockStopped: the lease ended because the clocks of this machine stood still, as those of a
	// virtual machine that its hypervisor pauses, or are slower than Config.MaxClockDrift allows.
	ErrClockStopped = seam.ErrClockStopped
	// ErrDeadlock: under WithDeadlockCheck, waiting would have closed a cycle of callers that wait
	// for each other.
	ErrDeadlock = errors.New("holdfast: waiting would be a deadlock")
	// ErrGroupAlive: Recover sees a majority of the group that it is to recover, or another group of the
	// fleet.
	ErrGroupAlive = errors.New("holdfast: nothing is recovered beside a group that is alive")
	// ErrClockBehind: this machine's clock is behind the one that Recover's source was written by.
	ErrClockBehind = errors.New("holdfast: the clock of this machine is behind")
	// ErrForced: an operator released the lock with ForceRelease.
	ErrForced = session.ErrForced
)

// HeldError names the holder of a lock that was not granted. Holder and Token are zero where there is
// none, as while a place rests, and where this node does not know it: a client that gives a wait up asks
// its replica, for 50 ms at most. errors.Is(err, ErrHeld) holds for it.
type HeldError struct {
	Name    string
	Holder  Holder
	Token   Token // the holder's
	Waiters int   // of the lock, as far as this node knows
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

// LimitError says that a name is in use as another kind of thing than the call asked for: as a
// lock, which exclusive and shared holders share, or as a semaphore of some size. A name is in use
// while it has a holder or a waiter, or while a place of it stays taken under WithMinHold or
// WithLockDelay. errors.Is(err, ErrLimitMismatch) holds for it.
type LimitError struct {
	Name   string
	Asked  int  // permits of the semaphore that the call asked for; 0: a lock
	Shared bool // a shared lock
	InUse  int  // permits of the semaphore that it is in use as, or was resized to; 0: in use as a lock; -1: not known to this node by now
	Weight int  // permits that the call wanted at once, if ResizeLimit left fewer; else 0
}

func (e *LimitError) Error() string {
	asked := "an exclusive lock"
	switch {
	case e.Weight > 0:
		asked = fmt.Sprintf("%d permits at once of a semaphore of %d", e.Weight, e.Asked)
	case e.Asked > 0:
		asked = fmt.Sprintf("a semaphore of %d", e.Asked)
	case e.Shared:
		asked = "a shared lock"
	}
	use := "is in use as a lock"
	switch {
	case e.InUse < 0:
		use = "was in use with another limit"
	case e.InUse > 0:
		use = fmt.Sprintf("is in use as a semaphore of %d", e.InUse)
	}
	return fmt.Sprintf("holdfast: %q %s; the call asked for %s", e.Name, use, asked)
}

// Is reports whether target is ErrLimitMismatch.
func (e *LimitError) Is(target error) bool { return target == ErrLimitMismatch }

// staleToken names the lock of a stale token, and the token of its holder, where the state of the lock
// is known.
func staleToken(name string, token Token, now fsm.NameState) error {
	switch {
	case now.Head != nil:
		return fmt.Errorf("%w: %d of %q, which is held with %d", ErrStaleToken, token, name, now.Head.Token)
	case now.At > 0:
		return fmt.Errorf("%w: %d of %q, which has no holder", ErrStaleToken, token, name)
	}
	return fmt.Errorf("%w: %d of %q", ErrStaleToken, token, name)
}

// FieldError names the argument, option or configuration field that is not acceptable.
// errors.Is(err, ErrInvalid) holds for it.
type FieldError struct {
	Field   string // as the caller wrote it: "name", "WithTTL", "Config.Voters"
	Problem string
}

func (e *FieldError) Error() string { return "holdfast: invalid " + e.Field + ": " + e.Problem }

// Is reports whether target is ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// RemoveError says why the raft leader refuses to remove a node. errors.Is(err, ErrNotRemoved) holds
// for it.
type RemoveError struct {
	NodeID string
	Last   bool // it is the last voter, without which the group would be lost; else Raft hears it
}

func (e *RemoveError) Error() string {
	if e.Last {
		return fmt.Sprintf("holdfast: node %s is not removed: it is the last voter, without which the group would be lost", e.NodeID)
	}
	return fmt.Sprintf("holdfast: node %s is not removed: Raft hears it; to take a node out that lives, use its Leave", e.NodeID)
}

// Is reports whether target is ErrNotRemoved.
func (e *RemoveError) Is(target error) bool { return target == ErrNotRemoved }

// ExhaustedError names the bound that is reached. errors.Is(err, ErrExhausted) holds for it.
type ExhaustedError struct {
	What  string // of which there are too many
	Limit int    // the bound, 0 where it is no plain number
	Whose string // the node or the prefix whose quota it is, in words; "" for a bound of the group or of this node
}

func (e *ExhaustedError) Error() string {
	if e.Limit == 0 {
		return "holdfast: limit reached: " + e.What
	}
	return fmt.Sprintf("holdfast: limit reached: %s, at most %d", e.What, e.Limit)
}

// Is reports whether target is ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// apiError translates the error of an internal package into one of the API; it returns any other
// unchanged.
func (c *Cluster) apiError(err error) error {
	if err == nil {
		return nil // before anything is allocated
	}
	var unknown *seam.UnknownError
	var full *seam.OverloadError
	var unreached *seam.UnreachedError
	var failed *report.FailedError
	var greeting *seam.RefusedError
	var kept *seam.KeptError
	var longer *client.TTLError
	switch {
	case errors.As(err, &unknown):
		return open(true, c.apiError(unknown.Cause))
	case errors.As(err, &full) && full.Ended != nil:
		return fmt.Errorf("%w: %w", full.Ended, c.apiError(&seam.OverloadError{}))
	case errors.As(err, &full):
		return &ExhaustedError{What: "calls under way at this node, which is overloaded", Limit: proposer.CallsMax}
	case errors.As(err, &unreached) && errors.Is(unreached.Ended, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrNoQuorum, unreached.Ended)
	case errors.As(err, &unreached):
		return unreached.Ended
	case errors.As(err, &failed):
		return dirError(fmt.Errorf("holdfast: the replica has failed: %w", err))
	case errors.As(err, &kept):
		return &RemoveError{NodeID: kept.Node, Last: kept.Reason == fsm.ReasonLast}
	case errors.Is(err, seam.ErrNotVoter):
		return invalid("nodeID", "is of no voter: only a voter can be raft leader")
	case errors.Is(err, seam.ErrNotTransferred):
		return fmt.Errorf("%w: %w", ErrNotTransferred, err)
	case errors.Is(err, seam.ErrUnknownNode):
		return invalid("nodeID", "the group has never known such a node")
	case errors.As(err, &longer):
		return invalid("Config.MaxTTL", "%v, and the longest of the group is %v: a client does not raise it", c.cfg.MaxTTL, longer.Group)
	case errors.As(err, &greeting):
		return refused(greeting.Outcome)
	case errors.Is(err, transport.ErrInvalid): // Bind was validated before
		return invalid("Config.TLS", "%v", err)
	case errors.Is(err, seam.ErrCut):
		return fmt.Errorf("%w: the replica that was read from is gone", ErrNoQuorum)
	case errors.Is(err, seam.ErrSuperseded):
		return lost(ErrYielded)
	case errors.Is(err, seam.ErrClosed), errors.Is(err, feed.ErrClosed):
		if cause := c.node.Stopped(); cause != nil {
			return c.apiError(cause) // which is none of these two
		}
		return ErrClosed
	case errors.Is(err, feed.ErrFull):
		return &ExhaustedError{What: "watches of this node", Limit: feed.WatchesMax}
	case errors.Is(err, session.ErrBusy):
		return &ExhaustedError{What: "unfinished calls of this node", Limit: session.OpenMax}
	}
	return dirError(err)
}

// explain is apiError of a call that waits for the group, with what the node itself waits for.
func (c *Cluster) explain(err error) error {
	err = c.apiError(err)
	if !errors.Is(err, ErrNoQuorum) {
		return err
	}
	if missing := c.node.Missing(); missing != "" {
		return fmt.Errorf("%w: %s", err, missing)
	}
	return err
}

// open adds to an error that the group may have applied the command, or may still apply it.
func open(unknown bool, err error) error {
	if !unknown {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// lost wraps the cause of a loss; the result is both ErrLost and cause.
func lost(cause error) error { return session.Lost(cause) }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// anew is the way out of a data directory that must not be used any more. It would be the end of a
// group whose majority takes it.
const anew = "delete the directory, and the node comes back as a new one with what the rest of its group has; " +
	"unless a majority of the voters is told this: then delete none, and recover the group from the newest"

// dirError adds to an error of the data directory, or of the replica in it, the value that a caller
// branches on, and the way out.
func dirError(err error) error {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(seam.ErrDirIncompatible):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	case is(report.ErrDamaged), is(report.ErrNoReplica):
		return fmt.Errorf("%w: %w: %s", ErrDamaged, err, anew)
	case is(report.ErrSuperseded), is(report.ErrForgetful):
		return fmt.Errorf("%w: this data directory is an older copy of its node's, or the node also runs on a copy of it: "+
			"of the two, run the one that others have heard last, and no other: %s: %w", ErrIncompatible, anew, err)
	case is(report.ErrAhead):
		return fmt.Errorf("%w: %w: either give up what this directory alone has: %s; or stop all nodes, and recover the group from this directory",
			ErrIncompatible, err, anew)
	case is(report.ErrForeign), is(report.ErrOtherStart):
		return fmt.Errorf("%w: %w: put the right directory in its place, or %s", ErrIncompatible, err, anew)
	case is(report.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return err
}
