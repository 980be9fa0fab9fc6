package main

import (
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// oneSync gives the engine alone what Holdfast has: one fsync for each commit instead of two. It just drops the
// commit index when nothing else is to be saved, which is good enough for a group that is never restarted.
type oneSync struct {
	raftio.ILogDB
	term, vote uint64
}

// oneSyncFactory makes the log store of the engine alone.
type oneSyncFactory struct{}

// Name is the kind of store.
func (oneSyncFactory) Name() string { return "sharded-pebble" }

// Create opens the store.
func (oneSyncFactory) Create(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	under, err := newPebbleStore(cfg, busy, dirs, wals)
	return &oneSync{ILogDB: under}, err
}

// SaveRaftState saves updates that have more than a commit index.
func (s *oneSync) SaveRaftState(updates []raftpb.Update, worker uint64) error {
	content := false
	for _, u := range updates {
		state := !raftpb.IsEmptyState(u.State) && (u.Term != s.term || u.Vote != s.vote)
		if state {
			s.term, s.vote = u.Term, u.Vote
		}
		content = content || state || len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot)
	}
	if !content {
		return nil
	}
	return s.ILogDB.SaveRaftState(updates, worker)
}
