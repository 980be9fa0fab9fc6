package fsm

import "errors"

var (
	// ErrMalformed says that bytes are not what the format asks for.
	ErrMalformed = errors.New("holdfast: malformed encoding")
	// ErrUnsupported says that bytes are of a version or operation that this replica does not know:
	// it is older than its group.
	ErrUnsupported = errors.New("holdfast: unsupported version or operation")
	// ErrStopped is WriteSnapshot's answer when it was told to stop.
	ErrStopped = errors.New("holdfast: snapshot stopped")
	// ErrInvariant is wrapped by every error of Check.
	ErrInvariant = errors.New("holdfast: state breaks an invariant")
)
