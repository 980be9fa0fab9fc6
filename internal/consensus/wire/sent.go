package wire

import (
	"fmt"

	"github.com/lni/dragonboat/v4/raftpb"
)

// A replica acknowledges whatever it knows to be committed, also beyond what a raft leader sent. The
// engine counts that towards the next commits: where the raft leader's voters have forgotten
// committed entries, as older copies of their directories were put back, an entry was committed with
// the raft leader's disk alone. So an acknowledgement beyond what this raft leader can have sent is
// refused before the engine sees it, and its sender stops. A tail that was never committed is
// ordinary Raft: the replica rejects, and its tail is cut off.
//
// One case is not found out: the raft leader's log has grown beyond the entries of the other replica
// before the two meet. That replica then receives nothing more.

// sent is how far the log of a raft leader reached for another replica, as of its last message.
type sent struct {
	term  uint64
	index uint64 // no acknowledgement of the term can be higher
}

// sending notes the entries of messages that are about to be sent. last is the last entry on this
// replica's disk: at the first message of a term no other replica has more that is committed.
func (r *Registry) sending(messages []raftpb.Message, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range messages {
		m := &messages[i]
		if m.Type != raftpb.Replicate {
			continue
		}
		s := r.sent[m.To]
		if m.Term > s.term {
			s = sent{term: m.Term, index: last}
		}
		if m.Term == s.term {
			s.index = max(s.index, m.LogIndex+uint64(len(m.Entries)))
		}
		r.sent[m.To] = s
	}
}

// sendingSnapshot notes a snapshot that is about to be sent.
func (r *Registry) sendingSnapshot(to, index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sent[to]; ok {
		s.index = max(s.index, index)
		r.sent[to] = s
	}
}

// ahead refuses an acknowledgement of what was not sent. The caller holds mu.
func (r *Registry) ahead(m *raftpb.Message) error {
	if s := r.sent[m.From]; m.Type == raftpb.ReplicateResp && !m.Reject && m.Term == s.term && m.LogIndex > s.index {
		return fmt.Errorf("%w: replica %x has acknowledged entry %d, and was sent %d at most", ErrAhead, m.From, m.LogIndex, s.index)
	}
	return nil
}
