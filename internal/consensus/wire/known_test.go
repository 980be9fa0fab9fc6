package wire

import (
	"errors"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
)

// goodGreeting is what node n says first on a connection.
func goodGreeting(n int) greeting {
	node, err := fsm.ParseNode(nodeID(n))
	if err != nil {
		panic(err)
	}
	return greeting{deployment: Deployment(testCluster), node: node, incarnation: 1 << RunBits}
}

// A voter that lags hears how far the raft leader is, though it has none of that itself. Heartbeats
// are cut to what it has.
func TestAVoterThatLagsKnowsWhatTheRaftLeaderHasCommitted(t *testing.T) {
	t.Parallel()
	r := newTable(ReplicaID(nodeID(1)))
	hello := goodGreeting(2)
	in, err := r.admit(hello, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.accept(in, []raftpb.Message{{Type: raftpb.Replicate, From: in.replica, Term: 3, LogIndex: 7, Commit: 1000}}); err != nil {
		t.Fatal(err)
	}
	r.leave(in)
	hello.incarnation = 2 << RunBits
	hello.began = store.Position{Term: 3, Vote: in.replica, Index: 999}
	if _, err := r.admit(hello, func() {}); !errors.Is(err, ErrForgetful) {
		t.Errorf("a raft leader that has forgotten a committed entry is let in: %v", err)
	}
	hello.began.Index = 1000
	if _, err := r.admit(hello, func() {}); err != nil {
		t.Errorf("one that has it all is refused: %v", err)
	}
}

// Every start without a data directory is a new node. After 4,096 of them, which a fleet of pods
// reaches in weeks, a replica that had been there all along let none in any more, until it was
// started again.
func TestAReplicaHearsNewNodesHoweverManyHaveComeAndGone(t *testing.T) {
	t.Parallel()
	member, connected := goodGreeting(1), goodGreeting(2)
	r := newTable(ReplicaID(nodeID(0)))
	r.Add(engine.Shard, ReplicaID(nodeID(1)), nodeID(1))
	in, err := r.admit(member, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.accept(in, []raftpb.Message{{Type: raftpb.ReplicateResp, Term: 3, LogIndex: 1000}}); err != nil {
		t.Fatal(err)
	}
	r.leave(in) // for a long time
	here, err := r.admit(connected, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 * heardMax {
		in, err := r.admit(goodGreeting(10+n), func() {})
		if err != nil {
			t.Fatalf("node %d is not heard: %v", n, err)
		}
		r.leave(in)
		if len(r.nodes) > heardMax {
			t.Fatalf("%d nodes are remembered", len(r.nodes))
		}
	}
	if err := r.accept(here, []raftpb.Message{{Type: raftpb.ReplicateResp, Term: 3, LogIndex: 1}}); err != nil {
		t.Errorf("who stayed connected: %v", err)
	}
	member.incarnation, member.began = 2<<RunBits, store.Position{Term: 3, Index: 999}
	if _, err := r.admit(member, func() {}); !errors.Is(err, ErrForgetful) {
		t.Errorf("what a member had promised is forgotten: an older copy of its directory is let in: %v", err)
	}
	last := goodGreeting(10 + 3*heardMax - 1)
	last.incarnation--
	if _, err := r.admit(last, func() {}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("a node that was here a moment ago is forgotten: %v", err)
	}
}

func TestNodesThatAreAllHereAreNotDroppedForOneMore(t *testing.T) {
	t.Parallel()
	r := newTable(ReplicaID(nodeID(0)))
	r.Add(engine.Shard, ReplicaID(nodeID(0)), nodeID(0))
	for n := range heardMax {
		if _, err := r.admit(goodGreeting(1+n), func() { t.Error("a connection is closed") }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.admit(goodGreeting(1+heardMax), func() {}); !errors.Is(err, errRefused) || len(r.nodes) != heardMax {
		t.Errorf("one too many: %v; %d are remembered", err, len(r.nodes))
	}
}
