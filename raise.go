package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// floorRarest is the longest time between questions to Config.TokenFloor that fail while the group
// serves.
const floorRarest = time.Minute

// raise asks Config.TokenFloor when this node is raft leader for the first time since its process
// began, and raises the tokens of the group above the answer: what it knows of its grants may be an
// older state, from a backup. (To the voters' clocks it was raised before it served; see
// internal/consensus.) Nothing waits for the answer.
func (f *founder) raise(ctx context.Context) {
	if f.c.cfg.TokenFloor == nil || f.initialized {
		return
	}
	for {
		group, changed := f.c.proposer.Current()
		if group != nil && group.IsRaftLeader() {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	floor, err := f.floor(ctx, floorRarest)
	if err != nil {
		return // the node ends
	}
	if _, err := f.c.insist(ctx, fsm.Raise{Counter: floor}); err != nil && ctx.Err() == nil {
		f.c.log.Error("the tokens could not be raised above Config.TokenFloor", "floor", floor, "error", err)
	}
}
