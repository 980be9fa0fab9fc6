package consensus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/transport"
)

// life is the nth life of a node that counts from 0.
func life(n uint64) uint64 { return n << LifeRandomBits }

// expel removes the nth node's replica and closes it, so that the node can begin another life.
func (r *replica) expel(t *testing.T, other *replica) {
	t.Helper()
	retry(t, "removing", func(ctx context.Context) error {
		return r.Remove(ctx, other.node, r.Members().Change)
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
		return r.AddStandby(ctx, next.node, next.Replica(), r.Members().Change)
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
			return group[0].AddStandby(t.Context(), node, ReplicaOf(node, life(n)), group[0].Members().Change)
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
		if err := group[0].AddStandby(t.Context(), node, ReplicaID(nodeID(4)), group[0].Members().Change); !errors.Is(err, ErrInvalid) {
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
			nodes, carrier := r.nodes, r.carrier
			nodes.mu.Lock()
			members, heard, last := len(nodes.members), len(nodes.heard), len(nodes.last)
			nodes.mu.Unlock()
			carrier.known.mu.Lock()
			known := len(carrier.known.nodes)
			carrier.known.mu.Unlock()
			r.clocks.mu.Lock()
			clocks := len(r.clocks.heard)
			r.clocks.mu.Unlock()
			// a late message of a former life is forgotten when the node is a member again
			if members != 3 || last > 3 || known > 3 || clocks > 2 || heard > 3 {
				t.Errorf("%s: %d members, %d senders, %d addresses, %d nodes, %d clocks", r.node, members, heard, last, known, clocks)
			}
		}
	})
}

func TestALaterLifeHasPromisedNothingAndAFormerOneHasForgotten(t *testing.T) {
	t.Parallel()
	r := newKnownReplicas(ReplicaID(nodeID(1)), func(fsm.Node) (uint64, bool) { return 0, false }, func(uint64) bool { return true })
	admit := func(incarnation, life uint64, began position) (*inbound, error) {
		g := goodGreeting(2)
		g.incarnation, g.life, g.began = incarnation<<RunBits, life, began
		return r.admit(g, func() {})
	}
	promise := func(in *inbound, index uint64) {
		t.Helper()
		if err := r.accept(in, []raftpb.Message{{Type: raftpb.ReplicateResp, From: in.replica, Term: 3, LogIndex: index}}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := admit(1, life(0), position{})
	if err != nil {
		t.Fatal(err)
	}
	promise(first, 1000)
	second, err := admit(1, life(1), position{})
	if err != nil || second.replica != ReplicaOf(nodeID(2), life(1)) {
		t.Fatalf("the same process in its next life: %+v, %v", second, err)
	}
	if err := r.accept(first, nil); !errors.Is(err, ErrSuperseded) {
		t.Errorf("what its former life still sends: %v", err)
	}
	if heard := r.hearings(0, map[uint64]string{second.replica: nodeID(2)}); len(heard) != 0 {
		t.Errorf("the next life counts as heard: %v", heard)
	}
	if _, err := admit(1, life(0), position{term: 3, index: 1000}); !errors.Is(err, errRefused) {
		t.Errorf("a late connection of the former life: %v", err)
	}
	promise(second, 2000)
	if _, err := admit(2, life(0), position{term: 3, index: 1000}); !errors.Is(err, ErrForgetful) {
		t.Errorf("a later process on a copy from the former life: %v", err)
	}
	if _, err := admit(2, life(1), position{term: 3, index: 1999}); !errors.Is(err, ErrForgetful) {
		t.Errorf("a later process on an older copy: %v", err)
	}
	if _, err := admit(2, life(1), position{term: 3, index: 2000}); err != nil {
		t.Errorf("a later process with all of it: %v", err)
	}
	if _, err := admit(3, life(1)+5, position{}); err != nil { // of a copy that was told that it is out
		t.Errorf("a later process that began the same life: %v", err)
	}
	if _, err := admit(4, life(2), position{}); err != nil {
		t.Errorf("a later process in a later life: %v", err)
	}
	if _, err := admit(3, life(3), position{}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("an earlier process, whatever its life: %v", err)
	}
}

func TestALifeIsFoundInTheReplicasId(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 1, life(1), life(1) + 7, 1<<LifeBits - 1} {
		if got, ok := lifeOf(nodeID(1), ReplicaOf(nodeID(1), n)); !ok || got != n {
			t.Errorf("life %#x: %#x, %v", n, got, ok)
		}
		if next := ReplicaOf(nodeID(1), n+life(1)); n < life(2) && (!LaterLife(nodeID(1), ReplicaOf(nodeID(1), n), next) || LaterLife(nodeID(1), next, next)) {
			t.Errorf("life %d is no later one than %d, or later than itself", n+life(1), n)
		}
		if isOf(nodeID(2), ReplicaOf(nodeID(1), n)) {
			t.Errorf("life %#x is of another node, too", n)
		}
		if id := ReplicaOf(nodeID(1), n); id < 2 {
			t.Errorf("life %#x is replica %d", n, id)
		}
	}
	if _, err := (greeting{life: 1 << LifeBits}).MarshalTo(make([]byte, greetingBytes)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, greetingBytes)
	_, _ = greeting{life: 1 << LifeBits}.MarshalTo(b)
	if _, err := decodeGreeting(b); err == nil {
		t.Error("a greeting of a life out of range is taken")
	}
}
