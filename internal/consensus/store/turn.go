package store

import (
	"sync/atomic"

	"github.com/lni/dragonboat/v4/raftpb"
)

// Turn is where in the log the raft leader of a term begins.
type Turn struct {
	Term   uint64
	First  uint64 // its first entry
	Before uint64 // no later entry before that is a command
}

// Turns has the last Turn of a log. One goroutine notes, others read.
type Turns struct {
	last    atomic.Pointer[Turn]
	command uint64 // no later entry is a command
}

// Last is the last Turn that was noted.
func (t *Turns) Last() Turn {
	if turn := t.last.Load(); turn != nil {
		return *turn
	}
	return Turn{}
}

// note notes entries that are about to be written, one at least. They replace those from the first one's index on.
func (t *Turns) note(entries []raftpb.Entry) {
	if before := entries[0].Index - 1; before < t.command || t.command == 0 {
		t.command = before
	}
	for i := range entries {
		e := &entries[i]
		if e.Term > t.Last().Term {
			t.last.Store(&Turn{Term: e.Term, First: e.Index, Before: t.command})
		}
		if e.Type == raftpb.EncodedEntry {
			t.command = e.Index
		}
	}
}
