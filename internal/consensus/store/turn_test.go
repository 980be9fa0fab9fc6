package store

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"
)

func TestATurnBeginsWithTheFirstEntryOfATermAfterTheLastCommand(t *testing.T) {
	t.Parallel()
	const command, nothing = raftpb.EncodedEntry, raftpb.ApplicationEntry
	entry := func(index, term uint64, kind raftpb.EntryType) raftpb.Entry {
		return raftpb.Entry{Index: index, Term: term, Type: kind}
	}
	var turns Turns
	for i, c := range []struct {
		entries []raftpb.Entry
		want    Turn
	}{
		{[]raftpb.Entry{entry(8, 2, command), entry(9, 2, nothing)}, Turn{2, 8, 7}}, // what was there before is not known
		{[]raftpb.Entry{entry(10, 3, nothing), entry(11, 3, command)}, Turn{3, 10, 8}},
		{[]raftpb.Entry{entry(12, 3, command), entry(13, 4, nothing)}, Turn{4, 13, 12}},
		{[]raftpb.Entry{entry(14, 4, command), entry(15, 4, command)}, Turn{4, 13, 12}},
		{[]raftpb.Entry{entry(15, 5, nothing)}, Turn{5, 15, 14}}, // takes the place of another
		{[]raftpb.Entry{entry(16, 5, command)}, Turn{5, 15, 14}},
	} {
		turns.note(c.entries)
		if got := turns.Last(); got != c.want {
			t.Errorf("step %d: %+v, want %+v", i, got, c.want)
		}
	}
}
