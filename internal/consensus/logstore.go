package consensus

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// logStore halves the engine's fsyncs. The engine saves each entry, and then, once it is committed,
// the commit index alone, with an fsync each, one after the other. But Raft need not remember the
// commit index: the next raft leader finds it again. So logStore keeps it back and lets it ride
// with the next write.
//
// Rules: term and vote are never kept back, nor the commit index of a membership change: who was
// removed by it may be gone for ever, and a voter that does not know after a crash that the change
// was committed needs the vote of the removed one to find it again. What is kept back is written
// before snapshots are recorded and entries are removed, and at Close, because the engine refuses
// to start when the commit index that it finds is below its snapshot. A snapshot's index is
// committed, whatever the step worker has told so far.
//
// What is written is also noted in the mark (see highwatermark.go). An error of the store fails the
// group and parks the goroutine of the engine that met it, which would panic.
type logStore struct {
	raftio.ILogDB
	replica uint64
	mark    *highWaterMark
	reached *depth
	figures *Figures
	fail    func(error)
	// busy holds the right to write: a channel, not a mutex, so that waiting for a slow disk is
	// idle time in the simulation.
	busy  chan struct{}
	saved raftpb.State // as far as this process wrote or read it
	held  raftpb.State // newer than saved in its commit index alone; empty: nothing is held back
	batch []raftpb.Update
	last  uint64 // index of the last entry, as soon as it is to be written
}

// logStoreFactory makes the log store; it keeps it for the group, to be asked how the replica
// began.
type logStoreFactory struct {
	replica uint64
	mark    *highWaterMark
	reached *depth
	figures *Figures
	fail    func(error)
	kind    storeKind
	store   *logStore
}

// storeKind is a kind of log store.
type storeKind struct {
	name string
	make func(config.NodeHostConfig, config.LogDBCallback, []string, []string) (raftio.ILogDB, error)
}

func pebbleStore() storeKind { return storeKind{"sharded-pebble", newPebbleStore} }

// Name is the kind of store, which the engine stamps its directory with.
func (f *logStoreFactory) Name() string { return f.kind.name }

// Create opens the store.
func (f *logStoreFactory) Create(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (raftio.ILogDB, error) {
	under, err := f.kind.make(cfg, busy, dirs, wals)
	if err != nil {
		return nil, err
	}
	f.store = &logStore{
		ILogDB: under, replica: f.replica, mark: f.mark, reached: f.reached, figures: f.figures, fail: f.fail,
		busy: make(chan struct{}, 1),
	}
	return f.store, nil
}

func (s *logStore) lock()   { s.busy <- struct{}{} }
func (s *logStore) unlock() { <-s.busy }

// SaveRaftState writes the updates, except what may be kept back.
func (s *logStore) SaveRaftState(updates []raftpb.Update, worker uint64) error {
	s.lock()
	defer s.unlock()
	s.batch = s.batch[:0]
	for _, u := range updates {
		if u.Commit > 0 { // else there is no news of it
			s.figures.Committed.Store(u.Commit)
		}
		if u, now := s.merge(u); now {
			s.batch = append(s.batch, u)
		}
	}
	if len(s.batch) == 0 {
		return nil
	}
	at := position{s.saved.Term, s.saved.Vote, s.last}
	err := s.mark.lower(at)
	if err == nil {
		began := time.Now()
		err = s.ILogDB.SaveRaftState(s.batch, worker)
		s.figures.Fsync.Observe(time.Since(began))
	}
	if err == nil {
		s.reached.set(at.index)
		err = s.mark.note(at)
	}
	clear(s.batch)
	return s.sound("saving entries", err)
}

// sound passes on what the engine expects, and stops the group for any other error.
func (s *logStore) sound(what string, err error) error {
	if err == nil || errors.Is(err, raftio.ErrNoSavedLog) || errors.Is(err, raftio.ErrNoBootstrapInfo) {
		return err
	}
	s.fail(fmt.Errorf("%w: %s: %w", ErrDamaged, what, err))
	park()
	return err
}

// merge returns what is to be written of an update, and false if that is nothing yet.
func (s *logStore) merge(u raftpb.Update) (raftpb.Update, bool) {
	held := s.held
	if raftpb.IsEmptyState(held) {
		held = s.saved
	}
	if raftpb.IsEmptyState(u.State) {
		u.State = held
	}
	content := len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot) || slices.ContainsFunc(u.CommittedEntries, changesMembers)
	if !content && u.Term == s.saved.Term && u.Vote == s.saved.Vote {
		if u.State != s.saved {
			s.held = u.State
		}
		return u, false
	}
	u.Commit = max(u.Commit, u.Snapshot.Index)
	s.saved, s.held = u.State, raftpb.State{}
	if !raftpb.IsEmptySnapshot(u.Snapshot) {
		s.last = u.Snapshot.Index
	}
	if n := len(u.EntriesToSave); n > 0 {
		s.last = u.EntriesToSave[n-1].Index
	}
	return u, true
}

func changesMembers(e raftpb.Entry) bool { return e.Type == raftpb.ConfigChangeEntry }

// flush writes what was kept back, with a commit index of at least committed.
func (s *logStore) flush(shard, replica, committed uint64) error {
	state := s.held
	if raftpb.IsEmptyState(state) {
		state = s.saved
	}
	if raftpb.IsEmptyState(state) {
		return nil
	}
	state.Commit = max(state.Commit, committed)
	if state == s.saved {
		return nil
	}
	const worker = 1
	err := s.ILogDB.SaveRaftState([]raftpb.Update{{ShardID: shard, ReplicaID: replica, State: state}}, worker)
	if err == nil {
		s.saved, s.held = state, raftpb.State{}
	}
	return err
}

// ReadRaftState returns the saved state, at a start.
func (s *logStore) ReadRaftState(shard, replica, last uint64) (raftio.RaftState, error) {
	s.lock()
	defer s.unlock()
	state, err := s.ILogDB.ReadRaftState(shard, replica, last)
	if err == nil {
		s.saved = state.State
	}
	return state, s.sound("reading the state", err)
}

// SaveSnapshots records snapshots.
func (s *logStore) SaveSnapshots(updates []raftpb.Update) error {
	s.lock()
	defer s.unlock()
	for _, u := range updates {
		if err := s.flush(u.ShardID, u.ReplicaID, u.Snapshot.Index); err != nil {
			return s.sound("saving the state", err)
		}
	}
	return s.sound("saving a snapshot's record", s.ILogDB.SaveSnapshots(updates))
}

// RemoveEntriesTo removes entries that a snapshot covers.
func (s *logStore) RemoveEntriesTo(shard, replica, index uint64) error {
	s.lock()
	defer s.unlock()
	if err := s.flush(shard, replica, index); err != nil {
		return s.sound("saving the state", err)
	}
	return s.sound("removing entries", s.ILogDB.RemoveEntriesTo(shard, replica, index))
}

// IterateEntries reads entries.
func (s *logStore) IterateEntries(entries []raftpb.Entry, size, shard, replica, low, high, max uint64) ([]raftpb.Entry, uint64, error) {
	entries, size, err := s.ILogDB.IterateEntries(entries, size, shard, replica, low, high, max)
	return entries, size, s.sound("reading entries", err)
}

// GetSnapshot reads the record of the last snapshot.
func (s *logStore) GetSnapshot(shard, replica uint64) (raftpb.Snapshot, error) {
	snapshot, err := s.ILogDB.GetSnapshot(shard, replica)
	return snapshot, s.sound("reading a snapshot's record", err)
}

// Close writes what was kept back and closes the store.
func (s *logStore) Close() error {
	s.lock()
	defer s.unlock()
	if err := s.flush(shard, s.replica, 0); err != nil {
		return err
	}
	return errors.Join(s.ILogDB.Close(), s.mark.close())
}
