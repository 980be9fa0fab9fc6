package consensus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/holdfast-go/holdfast/fsm"
)

// The state machine lets a command end only what its author has. A member that writes another's
// name there would end anybody's session.
func TestAReplicaCannotProposeInTheNameOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group := newBench().trio(t)
		defer closeAll(t, group)
		leader := leaderOf(t, group)
		liar := group[0]
		if liar == leader {
			liar = group[1]
		}
		forge := func(by fsm.Process, level uint64) {
			entry := append(by.AppendTo(nil), fsm.Encode(fsm.Level{Level: level})...)
			_, _, err := liar.request(context.Background(), func(h *dragonboat.NodeHost, patience time.Duration) (*dragonboat.RequestState, error) {
				return h.Propose(liar.session, entry, patience)
			})
			if (err == nil) != (by == liar.self) {
				t.Errorf("a proposal of %v by %v: %v", by, liar.self, err)
			}
		}
		forge(liar.self, 1)
		forge(leader.self, 5)
		other := liar.self
		other.Incarnation++
		forge(other, 5)
		liar.barrier(t)
		if level := liar.level(); level != 1 {
			t.Errorf("level %d: a forged command was carried out", level)
		}
	})
}
