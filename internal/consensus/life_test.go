package consensus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
	"github.com/holdfast-go/holdfast/transport"
)

// life is the nth life of a node that counts from 0.
func life(n uint64) uint64 { return n << wire.LifeRandomBits }

// expel removes the nth node's replica and closes it, so that the node can begin another life.
func (r *replica) expel(t *testing.T, other *replica) {
	t.Helper()
	retry(t, "removing", func(ctx context.Context) error {
		return r.Remove(ctx, other.node, basis(r))
	})
	other.close(t)
}

// reborn starts the nth node in another life, and lets the group take it in.
func (b *bench) reborn(t *testing.T, r *replica, n int, life uint64) *replica {
	t.Helper()
	tune := b.tune
	b.tune = func(c *Config) {
		c.Life, c.Incarnation = life, 100<<RunBits // of one process, through all its lives
		if tune != nil {
			tune(c)
		}
	}
	next := b.open(t, n, vfs.NewMem(), StartJoin)
	b.tune = tune
	retry(t, "adding a later life", func(ctx context.Context) error {
		return r.AddStandby(ctx, next.node, next.Replica(), basis(r))
	})
	next.barrier(t)
	return next
}

func TestANodeWhoseReplicaWasRemovedComesBackAsAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		for n := range uint64(3) {
			group[0].expel(t, group[2])
			group[2] = b.reborn(t, group[0], 3, life(n+1))
			group[0].promote(t, group[2])
			group[2].propose(t, fsm.Level{Level: n + 1})
			for _, r := range group {
				r.barrier(t)
				m := r.Members()
				replica, _ := m.Replica(nodeID(3))
				if len(m.Voters) != 3 || len(m.Standbys) != 0 || replica != ReplicaOf(nodeID(3), life(n+1)) || r.level() != n+1 {
					t.Errorf("life %d: %s sees %+v at level %d", n+1, r.node, m, r.level())
				}
			}
		}
		// It counts as any other: with one of the others gone, the group needs its vote.
		network := b.network.(*transport.Memory)
		old := group[0]
		old.dies(t, network)
		group = group[1:]
		group[0].propose(t, fsm.Level{Level: 9})
	})
}

// Two replicas of one node would be two votes of one process.
func TestTheGroupNeverHasTwoReplicasOfANodeNorOneThatItRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		node := nodeID(3)
		add := func(n uint64) error {
			return group[0].AddStandby(t.Context(), node, ReplicaOf(node, life(n)), basis(group[0]))
		}
		for _, n := range []uint64{1, 2} {
			if err := add(n); !errors.Is(err, ErrMembershipChanged) {
				t.Errorf("life %d beside life 0: %v", n, err)
			}
		}
		group[0].expel(t, group[2])
		group[2] = b.reborn(t, group[0], 3, life(1))
		group[0].expel(t, group[2])
		group = group[:2]
		for n := range uint64(2) {
			if err := add(n); !errors.Is(err, ErrMembershipChanged) {
				t.Errorf("life %d was removed, and added again: %v", n, err)
			}
		}
		if err := group[0].AddStandby(t.Context(), node, ReplicaID(nodeID(4)), basis(group[0])); !errors.Is(err, ErrInvalid) {
			t.Errorf("another node's replica: %v", err)
		}
		if m := group[0].Members(); m.Has(node) || len(m.All()) != 2 {
			t.Errorf("members %+v", m)
		}
	})
}

// A replica that had been put out and in again for long would have remembered each of its lives.
func TestNothingGrowsWithTheLivesOfANode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		group := b.trio(t)
		defer func() { closeAll(t, group) }()
		for n := range uint64(20) {
			group[0].expel(t, group[2])
			group[2] = b.reborn(t, group[0], 3, life(n+1))
		}
		for _, r := range group {
			r.barrier(t)
			r.clocks.mu.Lock()
			clocks := len(r.clocks.heard)
			r.clocks.mu.Unlock()
			// a late message of a former life is forgotten when the node is a member again
			if members, all := len(r.Members().All()), r.nodes.Len(); members != 3 || all > 3 || clocks > 2 {
				t.Errorf("%s: %d members, %d clocks, %d in the largest table", r.node, members, clocks, all)
			}
		}
	})
}
