package consensus

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
)

// A mutant that kept votes back as it keeps commit indexes back lived: a replica that votes in a term that it
// had entered before, and forgets the vote in a power cut, could vote twice.
func TestAVoteIsNeverKeptBack(t *testing.T) {
	t.Parallel()
	s := &logStore{saved: raftpb.State{Term: 5, Vote: 0, Commit: 7}}
	if _, now := s.merge(raftpb.Update{State: raftpb.State{Term: 5, Vote: 0, Commit: 8}}); now {
		t.Error("a commit index alone is written")
	}
	if u, now := s.merge(raftpb.Update{State: raftpb.State{Term: 5, Vote: 2, Commit: 8}}); !now || u.State.Vote != 2 {
		t.Errorf("a vote in a term entered before is kept back: %+v", u.State)
	}
	if _, now := s.merge(raftpb.Update{State: raftpb.State{Term: 6, Vote: 2, Commit: 8}}); !now {
		t.Error("a term is kept back")
	}
}
