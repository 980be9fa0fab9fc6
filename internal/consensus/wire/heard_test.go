package wire

import (
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

func TestOnlyAnswersProveThatAReplicaIsInReach(t *testing.T) {
	t.Parallel()
	for kind := raftpb.MessageType(0); kind < 40; kind++ {
		var h lastHeard
		h.message(&raftpb.Message{Type: kind, Term: 3, LogIndex: 9}, time.Unix(1, 0))
		want := kind == raftpb.HeartbeatResp || kind == raftpb.ReplicateResp || kind == raftpb.Heartbeat || kind == raftpb.Replicate ||
			kind == raftpb.ReadIndexResp
		if got := !h.At.IsZero(); got != want {
			t.Errorf("%v counts: %v", kind, got)
		}
	}
	h := lastHeard{term: 3, Heard: Heard{At: time.Unix(1, 0), Match: 9}}
	before := h
	h.message(&raftpb.Message{Type: raftpb.ReplicateResp, Term: 3, LogIndex: 10, Reject: true}, time.Unix(2, 0))
	h.message(&raftpb.Message{Type: raftpb.ReplicateResp, Term: 2, LogIndex: 10}, time.Unix(2, 0))
	if h != before {
		t.Errorf("a refusal, or an answer of an earlier term, counts: %+v", h)
	}
	h.message(&raftpb.Message{Type: raftpb.ReplicateResp, Term: 4, LogIndex: 5}, time.Unix(2, 0))
	if h.Match != 5 {
		t.Errorf("what was acknowledged in an earlier term counts in a later one: %+v", h)
	}
}

// The zero time is so far away that the duration since then has no room: a raft leader counted with it, took
// every replica for one that is sent a snapshot, and never saw that one had made no progress.
func TestAReplicaThatWasSentNoSnapshotHasATimeThatIsNear(t *testing.T) {
	t.Parallel()
	var h lastHeard
	for term := uint64(3); term < 5; term++ {
		h.message(&raftpb.Message{Type: raftpb.HeartbeatResp, Term: term}, time.Unix(int64(term), 0))
		h.message(&raftpb.Message{Type: raftpb.HeartbeatResp, Term: term}, time.Unix(int64(term)+1, 0))
		if !h.Snapshot.Equal(time.Unix(3, 0)) {
			t.Errorf("term %d: %v", term, h.Snapshot)
		}
	}
}

func TestToNoteWhoWasHeardAllocatesNothing(t *testing.T) {
	r := newTable(ReplicaID(nodeID(1)))
	in, err := r.admit(goodGreeting(2), func() {})
	if err != nil {
		t.Fatal(err)
	}
	messages := []raftpb.Message{{Type: raftpb.ReplicateResp, Term: 3, LogIndex: 10}, {Type: raftpb.HeartbeatResp, Term: 3}}
	if n := testing.AllocsPerRun(1000, func() {
		if err := r.accept(in, messages); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a batch of messages", n)
	}
}
