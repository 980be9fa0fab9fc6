package consensus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"
)

// The engine drops what a raft leader answers to a replica that has not applied yet that it is a
// member. One that joined knew the raft leader by its first heartbeat, asked, and waited for its
// whole attempt: in one start of some hundred.
func TestAReplicaThatJoinsAsksNothingBeforeItKnowsTheMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, disk := newBench(), &stuck{}
		first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		first.propose(t, birth())
		joins := b.open(t, 2, vfs.Wrap(vfs.NewMem(), disk), StartJoin)
		defer closeAll(t, []*replica{first, joins})
		disk.shut()
		retry(t, "adding a standby", func(ctx context.Context) error {
			return first.AddStandby(ctx, joins.node, ReplicaID(joins.node), basis(first))
		})
		retry(t, "hearing the raft leader", func(context.Context) error {
			if _, _, known := joins.RaftLeader(); !known {
				return ErrNotProposed
			}
			return nil
		})
		began := time.Now()
		if err := joins.Barrier(context.Background()); !errors.Is(err, ErrNotProposed) || time.Since(began) > 0 {
			t.Errorf("a read that the engine would not take the answer of: %v after %v", err, time.Since(began))
		}
		disk.open()
		joins.barrier(t)
	})
}
