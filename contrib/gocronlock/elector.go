package gocronlock

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// ErrNotLeader: another scheduler runs the jobs, or none can now.
var ErrNotLeader = errors.New("gocronlock: this node does not lead")

// Elector is a gocron.Elector, for gocron.WithDistributedElector, over a campaign that the caller
// starts and closes: close it after the scheduler's Shutdown, so that the next leader begins when
// the jobs of this one have ended.
type Elector struct{ *holdfast.Campaign }

// IsLeader returns nil if this node leads. It looks at the clock alone, and asks nobody. Its error
// is ErrNotLeader, and wraps that of the campaign once that is over.
func (e Elector) IsLeader(context.Context) error {
	if e.Campaign.IsLeader() {
		return nil
	}
	if err := e.Err(); err != nil {
		return errors.Join(ErrNotLeader, err)
	}
	return ErrNotLeader
}
