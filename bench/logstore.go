package main

import (
	"errors"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// oneSync gives the engine alone what Holdfast has: one fsync for each commit instead of two. It
// keeps the commit index back while there is nothing else to save, until a snapshot is recorded or
// the store is closed.
type oneSync struct {
	raftio.ILogDB
	mu             sync.Mutex // of the workers that step, take snapshots and compact
	shard, replica uint64
	saved, last    raftpb.State
}

// oneSyncFactory makes the log store of the engine alone.
type oneSyncFactory struct{ tan bool }

// Name is the kind of store.
func (f oneSyncFactory) Name() string {
	if f.tan {
		return tan.Factory.Name()
	}
	return "sharded-pebble"
}

// Create opens the store.
func (f oneSyncFactory) Create(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	create := newPebbleStore
	if f.tan {
		create = tan.Factory.Create
	}
	under, err := create(cfg, busy, dirs, wals)
	return &oneSync{ILogDB: under}, err
}

// SaveRaftState saves updates that have more than a commit index. All are of one replica.
func (s *oneSync) SaveRaftState(updates []raftpb.Update, worker uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	content := false
	for i := range updates {
		u := &updates[i]
		s.shard, s.replica = u.ShardID, u.ReplicaID
		if raftpb.IsEmptyState(u.State) {
			u.State = s.last // tan takes no state for a change of it, and syncs once more
		}
		s.last = u.State
		content = content || u.Term != s.saved.Term || u.Vote != s.saved.Vote || len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot)
	}
	if !content {
		return nil
	}
	s.saved = s.last
	return s.ILogDB.SaveRaftState(updates, worker)
}

// ReadRaftState is asked at the start.
func (s *oneSync) ReadRaftState(shard, replica, last uint64) (raftio.RaftState, error) {
	state, err := s.ILogDB.ReadRaftState(shard, replica, last)
	if err == nil {
		s.shard, s.replica, s.saved, s.last = shard, replica, state.State, state.State
	}
	return state, err
}

// SaveSnapshots saves what was kept back first: the engine does not start with a commit index
// before a snapshot.
func (s *oneSync) SaveSnapshots(updates []raftpb.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range updates {
		if err := s.flush(u.Snapshot.Index); err != nil {
			return err
		}
	}
	return s.ILogDB.SaveSnapshots(updates)
}

// RemoveEntriesTo saves what was kept back first.
func (s *oneSync) RemoveEntriesTo(shard, replica, index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.flush(index); err != nil {
		return err
	}
	return s.ILogDB.RemoveEntriesTo(shard, replica, index)
}

func (s *oneSync) flush(committed uint64) error {
	state := s.last
	state.Commit = max(state.Commit, committed)
	if state == s.saved || raftpb.IsEmptyState(state) {
		return nil
	}
	s.saved, s.last = state, state
	const worker = 1
	return s.ILogDB.SaveRaftState([]raftpb.Update{{ShardID: s.shard, ReplicaID: s.replica, State: state}}, worker)
}

// Close saves what was kept back and closes the store.
func (s *oneSync) Close() error { return errors.Join(s.flush(0), s.ILogDB.Close()) }
