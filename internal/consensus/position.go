package consensus

import (
	"fmt"

	"github.com/lni/dragonboat/v4/raftpb"
)

// position is how far a replica has come, as far as others rely on it: what it may never fall
// behind of.
type position struct {
	term  uint64
	vote  uint64 // the replica that has its vote of this term, 0 if none is known
	index uint64 // last in the log
}

func (p position) String() string {
	return fmt.Sprintf("term %d, vote %x, index %d", p.term, p.vote, p.index)
}

// forgets reports whether a replica at p has forgotten that it was at past. A log may lose its end
// to the raft leader of a later term, but never what was acknowledged in the present one; terms
// never fall, and votes never change.
func (p position) forgets(past position) bool {
	if p.term != past.term {
		return p.term < past.term
	}
	return past.vote != 0 && p.vote != past.vote || p.index < past.index
}

// promises returns what the sender of a message vouches for with it: with a vote, an
// acknowledgement, or as raft leader with a commit index, which counts the raft leader's own log.
// All of that is on the sender's disk when it is sent. (Not so the entries of a Replicate, but what
// they commit: see sender.backed.) A Replicate tells more than a heartbeat: it comes with each
// commit, and its commit index is not cut to what the receiver has. self is the replica that the
// message came to.
func promises(m *raftpb.Message, self uint64) (position, bool) {
	switch {
	case m.Type == raftpb.RequestVote:
		return position{term: m.Term, vote: m.From}, true
	case m.Type == raftpb.RequestVoteResp && !m.Reject:
		return position{term: m.Term, vote: self}, true
	case m.Type == raftpb.Heartbeat, m.Type == raftpb.Replicate:
		return position{term: m.Term, vote: m.From, index: m.Commit}, true
	case m.Type == raftpb.ReplicateResp && !m.Reject:
		return position{term: m.Term, index: m.LogIndex}, true
	}
	return position{}, false
}

// advance is p with a later promise added.
func (p position) advance(promise position) position {
	if promise.term != p.term {
		if promise.term > p.term {
			return promise
		}
		return p
	}
	if promise.vote != 0 {
		p.vote = promise.vote
	}
	p.index = max(p.index, promise.index)
	return p
}
