package store

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
)

// A mutant that kept votes back as it keeps commit indexes back lived: a replica that votes in a
// term that it had entered before, and forgets the vote in a power cut, could vote twice.
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

// A commit index alone is not written, but for that of a membership change. See
// TestAVoterThatStaysAloneKnowsSoAfterItWasKilled.
func TestTheCommitOfAMembershipChangeIsNeverKeptBack(t *testing.T) {
	t.Parallel()
	s := &logStore{saved: raftpb.State{Term: 5, Vote: 1, Commit: 7}}
	committed := func(index uint64, kind raftpb.EntryType) raftpb.Update {
		return raftpb.Update{
			State: raftpb.State{Term: 5, Vote: 1, Commit: index}, CommittedEntries: []raftpb.Entry{{Index: index, Term: 5, Type: kind}},
		}
	}
	if _, now := s.merge(committed(8, raftpb.ApplicationEntry)); now {
		t.Error("the commit index of a command is written")
	}
	if u, now := s.merge(committed(9, raftpb.ConfigChangeEntry)); !now || u.Commit != 9 {
		t.Errorf("the commit index of a membership change is kept back: %+v", u.State)
	}
	late := committed(10, raftpb.ConfigChangeEntry) // the engine may tell of the index before it hands the entry on
	if _, now := s.merge(raftpb.Update{State: late.State}); now {
		t.Error("a commit index alone is written")
	}
	late.State = raftpb.State{}
	if u, now := s.merge(late); !now || u.Commit != 10 {
		t.Errorf("the commit index of a membership change is kept back: %+v", u.State)
	}
}
