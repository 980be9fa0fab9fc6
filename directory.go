package holdfast

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

// anew is the way out of a data directory that must not be used any more.
const anew = "delete the directory, and the node comes back as a new one with what the rest of its group has"

// dirError says of an error of the data directory or of the replica in it what a caller branches on, and what
// to do about it.
func dirError(err error) error {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(datadir.ErrIncompatible):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	case is(consensus.ErrDamaged), is(consensus.ErrNoReplica):
		return fmt.Errorf("%w: %w: %s", ErrDamaged, err, anew)
	case is(consensus.ErrSuperseded), is(consensus.ErrForgetful):
		return fmt.Errorf("%w: this data directory is an older copy of its node's, or the node also runs on a copy of it: "+
			"of the two, run the one that others have heard last, and no other: %s: %w", ErrIncompatible, anew, err)
	case is(consensus.ErrForeign), is(consensus.ErrOtherStart):
		return fmt.Errorf("%w: %w: put the right directory in its place, or %s", ErrIncompatible, err, anew)
	case is(consensus.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return err
}

// mayReopen reports whether a later node of this process may have the directory of one that ended with err. What
// is left of an engine that has failed has files of it open, and idles for as long as the process lives.
func mayReopen(err error) bool {
	var failed *consensus.FailedError
	if errors.As(err, &failed) {
		return errors.Is(err, consensus.ErrSuperseded) || errors.Is(err, consensus.ErrForgetful)
	}
	return !errors.Is(err, consensus.ErrAbandoned)
}
