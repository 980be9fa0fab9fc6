package node

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/seam"
)

// errOut ends the service of a replica that the group has removed.
var errOut = errors.New("holdfast: the replica was removed")

// unreached is the error of an operation whose context ended before its outcome was known.
func unreached(ctx context.Context) error { return &seam.UnreachedError{Ended: ctx.Err()} }
