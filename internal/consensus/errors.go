package consensus

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/consensus/report"
)

// Errors that callers branch on, also those without a replica.
var (
	ErrNotProposed = report.ErrNotProposed
	ErrUnknown     = report.ErrUnknown
	ErrClosed      = report.ErrClosed
	ErrRemoved     = report.ErrRemoved
	ErrNoReplica   = report.ErrNoReplica
	ErrOtherStart  = report.ErrOtherStart
	ErrForeign     = report.ErrForeign
	ErrDamaged     = report.ErrDamaged
	ErrSuperseded  = report.ErrSuperseded
	ErrForgetful   = report.ErrForgetful
	ErrAhead       = report.ErrAhead
	ErrInvariant   = report.ErrInvariant
	ErrUnsupported = report.ErrUnsupported
	ErrLevel       = report.ErrLevel
)

var (
	// ErrMembershipChanged means that the membership is not the one that the caller had seen, or
	// that the group refuses the change.
	ErrMembershipChanged = errors.New("holdfast: membership changed meanwhile")
	// ErrInvalid is the error for an invalid Config or argument, which the message names.
	ErrInvalid = errors.New("holdfast: invalid")
	// ErrAbandoned is the error of Close when the engine did not stop in time. Its goroutines are
	// parked forever.
	ErrAbandoned = errors.New("holdfast: the raft engine did not stop in time and was abandoned")
)

// FailedError is report.FailedError.
type FailedError = report.FailedError

// Figures is report.Figures.
type Figures = report.Figures
