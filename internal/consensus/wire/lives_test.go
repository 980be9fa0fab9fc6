package wire

import (
	"errors"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
)

func TestALaterLifeHasPromisedNothingAndAFormerOneHasForgotten(t *testing.T) {
	t.Parallel()
	r := newTable(ReplicaID(nodeID(1)))
	admit := func(incarnation, life uint64, began store.Position) (*inbound, error) {
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
	first, err := admit(1, life(0), store.Position{})
	if err != nil {
		t.Fatal(err)
	}
	promise(first, 1000)
	second, err := admit(1, life(1), store.Position{})
	if err != nil || second.replica != ReplicaOf(nodeID(2), life(1)) {
		t.Fatalf("the same process in its next life: %+v, %v", second, err)
	}
	if err := r.accept(first, nil); !errors.Is(err, ErrSuperseded) {
		t.Errorf("what its former life still sends: %v", err)
	}
	r.Add(engine.Shard, second.replica, nodeID(2))
	if heard, _ := r.Heard(0); len(heard) != 0 {
		t.Errorf("the next life counts as heard: %v", heard)
	}
	if _, err := admit(1, life(0), store.Position{Term: 3, Index: 1000}); !errors.Is(err, errRefused) {
		t.Errorf("a late connection of the former life: %v", err)
	}
	promise(second, 2000)
	if _, err := admit(2, life(0), store.Position{Term: 3, Index: 1000}); !errors.Is(err, ErrForgetful) {
		t.Errorf("a later process on a copy from the former life: %v", err)
	}
	if _, err := admit(2, life(1), store.Position{Term: 3, Index: 1999}); !errors.Is(err, ErrForgetful) {
		t.Errorf("a later process on an older copy: %v", err)
	}
	if _, err := admit(2, life(1), store.Position{Term: 3, Index: 2000}); err != nil {
		t.Errorf("a later process with all of it: %v", err)
	}
	if _, err := admit(3, life(1)+5, store.Position{}); err != nil { // of a copy that was told that it is out
		t.Errorf("a later process that began the same life: %v", err)
	}
	if _, err := admit(4, life(2), store.Position{}); err != nil {
		t.Errorf("a later process in a later life: %v", err)
	}
	if _, err := admit(3, life(3), store.Position{}); !errors.Is(err, ErrSuperseded) {
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
		if IsOf(nodeID(2), ReplicaOf(nodeID(1), n)) {
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
