package wire

import (
	"errors"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
)

// A raft leader's log ends at 10 as its term begins.
func TestAnAcknowledgementBeyondWhatWasSentIsRefused(t *testing.T) {
	t.Parallel()
	const other, term = 7, 3
	acked := func(term, index uint64, rejects bool) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.ReplicateResp, From: other, Term: term, LogIndex: index, Reject: rejects}
	}
	for _, c := range []struct {
		name string
		ack  *raftpb.Message
		want bool
	}{
		{"all that was sent", acked(term, 12, false), false},
		{"all that was there before the term, of which little was sent", acked(term, 10, false), false},
		{"one entry more", acked(term, 13, false), true},
		{"a tail that was never committed", acked(term, 13, true), false},
		{"another term", acked(term-1, 13, false), false},
		{"a heartbeat's answer", &raftpb.Message{Type: raftpb.HeartbeatResp, From: other, Term: term, LogIndex: 13}, false},
		{"another replica's", &raftpb.Message{Type: raftpb.ReplicateResp, From: other + 1, Term: term, LogIndex: 13}, false},
	} {
		r := newRegistry(1, nil, nil, func() {})
		r.sending([]raftpb.Message{{Type: raftpb.Replicate, To: other, Term: term - 1, LogIndex: 50}}, 10) // it led before, and lost that
		r.sending([]raftpb.Message{{Type: raftpb.Replicate, To: other, Term: term, LogIndex: 2}}, 10)
		r.sending([]raftpb.Message{{Type: raftpb.Replicate, To: other, Term: term, LogIndex: 10, Entries: make([]raftpb.Entry, 2)}}, 11)
		if err := r.ahead(c.ack); errors.Is(err, ErrAhead) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if r.sendingSnapshot(other, 20); r.ahead(c.ack) != nil {
			t.Errorf("%s, after a snapshot at 20: refused", c.name)
		}
	}
}
