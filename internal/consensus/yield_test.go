package consensus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/transport"
)

// pair runs a group of two voters, of which the first is raft leader. cut parts them for two elections.
func pair(t *testing.T, f func(first, second *replica, cut func())) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		network := b.network.(*transport.Memory)
		first := b.open(t, 1, vfs.NewMem(), StartBootstrap)
		first.propose(t, birth())
		second := b.add(t, first, 2, vfs.NewMem())
		first.promote(t, second)
		second.barrier(t)
		defer closeAll(t, []*replica{first, second})
		f(first, second, func() {
			network.Isolate(second.endpoint.Addr())
			time.Sleep(2 * first.cfg.Election)
			network.Heal(second.endpoint.Addr(), "")
		})
	})
}

// Found by the seeded model, seeds 9452727 and 9477043: of two voters one left. As the raft leader removed it, it
// became raft leader itself, committed its own removal, and ended; its last word was lost, and the other waited
// for its vote forever. One that yields does not become raft leader: not as both hear nothing, nor by an order.
func TestAVoterThatYieldsLeavesTheRaftLeadershipToTheOther(t *testing.T) {
	t.Parallel()
	pair(t, func(first, second *replica, cut func()) {
		second.Yield(true)
		for range 20 {
			_, before, _ := first.RaftLeader()
			cut()
			second.barrier(t)
			if leader, term, _ := second.RaftLeader(); leader != first.node || term == before {
				t.Fatalf("after %v of term %d the raft leader is %v, of term %d", first.node, before, leader, term)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := first.Transfer(ctx, second.node); err == nil {
			t.Error("it was made raft leader by an order")
		}
		first.barrier(t)
		second.Yield(false)
		if err := first.Transfer(ctx, second.node); err != nil {
			t.Errorf("without, a transfer fails: %v", err)
		}
	})
}

// Where the others cannot be raft leader, the one that yields is, after a while.
func TestAVoterYieldsForAWhile(t *testing.T) {
	t.Parallel()
	pair(t, func(first, second *replica, cut func()) {
		first.Yield(true)
		second.Yield(true)
		cut()
		began := time.Now()
		second.barrier(t)
		if took := time.Since(began); took > (yieldElections+4)*first.cfg.Election {
			t.Errorf("nobody was raft leader for %v", took)
		}
	})
}
