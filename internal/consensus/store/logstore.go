package store

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/tally"
)

// logStore halves the engine's fsyncs. The engine saves each entry, and later, once it is
// committed, the commit index alone, with an fsync each. But Raft need not remember the commit
// index: the next raft leader finds it again. So logStore holds it back until the next write.
//
// Term and vote are never held back, nor the commit index of a membership change: the removed
// replica may be gone forever, and a voter that forgets in a crash that the change was committed
// needs its vote to find that again. The state held back is written before snapshots are recorded,
// before entries are removed, and at Close, because the engine refuses to start if its commit index
// is below its snapshot.
//
// Each write is also noted in the mark (see highwatermark.go). An error of the store fails the
// group and parks the goroutine of the engine, which would panic.
type logStore struct {
	Config
	raftio.ILogDB // nil before Create
	mark          *highWaterMark
	// busy is a lock: a channel, not a mutex, so that waiting for a slow disk is idle time in a
	// simulation.
	busy  chan struct{}
	saved raftpb.State // as written or read last
	held  raftpb.State // differs from saved in its commit index alone; empty: none
	batch []raftpb.Update
	last  uint64 // index of the last entry, before it is written
}

// Config configures the log of a replica. All is required.
type Config struct {
	FS        vfs.FS // of Dir, as the engine sees it
	Dir       string
	Replica   uint64
	Reached   *Depth
	Turns     *Turns
	Committed *atomic.Uint64   // index of the last entry that this replica knows to be committed
	Fsync     *tally.Histogram // a write of the log, until it is on the disk
	Writing   *tally.Waiting   // a write of the log that has not returned
	Fail      func(error)
}

// Factory makes the log store for the engine (config.LogDBFactory). The group asks it how the
// replica began, after Create.
type Factory struct{ *logStore }

// kind is the kind of store in the engine's stamp of its directory.
const kind = "sharded-pebble"

// New makes the factory of a replica's log.
func New(cfg Config) Factory {
	mark := &highWaterMark{fs: cfg.FS, name: MarkOf(cfg.Dir), replica: cfg.Replica}
	return Factory{&logStore{Config: cfg, mark: mark, busy: make(chan struct{}, 1)}}
}

// Name is the kind of store.
func (Factory) Name() string { return kind }

// Create opens the store.
func (f Factory) Create(cfg config.NodeHostConfig, busy config.LogDBCallback, dirs, wals []string) (_ raftio.ILogDB, err error) {
	f.ILogDB, err = newPebbleStore(cfg, busy, dirs, wals)
	return f.logStore, err
}

func (s *logStore) lock() {
	s.busy <- struct{}{}
	s.Writing.Begin()
}

func (s *logStore) unlock() {
	s.Writing.End()
	<-s.busy
}

// SaveRaftState writes the updates, except a state that may be held back.
func (s *logStore) SaveRaftState(updates []raftpb.Update, worker uint64) error {
	s.lock()
	defer s.unlock()
	s.batch = s.batch[:0]
	for _, u := range updates {
		if u.Commit > 0 { // 0: unchanged
			s.Committed.Store(u.Commit)
		}
		if u, now := s.merge(u); now {
			s.batch = append(s.batch, u)
		}
	}
	if len(s.batch) == 0 {
		return nil
	}
	at := Position{s.saved.Term, s.saved.Vote, s.last}
	err := s.mark.lower(at)
	if err == nil {
		began := time.Now()
		err = s.ILogDB.SaveRaftState(s.batch, worker)
		s.Fsync.Observe(time.Since(began))
	}
	if err == nil {
		s.Reached.set(at.Index)
		err = s.mark.note(at)
	}
	clear(s.batch)
	return s.sound("saving entries", err)
}

// sound returns errors that the engine expects, and fails the group for any other.
func (s *logStore) sound(what string, err error) error {
	if err == nil || errors.Is(err, raftio.ErrNoSavedLog) || errors.Is(err, raftio.ErrNoBootstrapInfo) {
		return err
	}
	s.Fail(fmt.Errorf("%w: %s: %w", ErrDamaged, what, err))
	engine.Park()
	return err
}

// state is the last state, held back or saved.
func (s *logStore) state() raftpb.State {
	if raftpb.IsEmptyState(s.held) {
		return s.saved
	}
	return s.held
}

// merge returns what an update has to write, and false if it is all held back.
func (s *logStore) merge(u raftpb.Update) (raftpb.Update, bool) {
	if raftpb.IsEmptyState(u.State) {
		u.State = s.state()
	}
	content := len(u.EntriesToSave) > 0 || !raftpb.IsEmptySnapshot(u.Snapshot) || slices.ContainsFunc(u.CommittedEntries, changesMembers)
	if !content && u.Term == s.saved.Term && u.Vote == s.saved.Vote {
		if u.State != s.saved {
			s.held = u.State
		}
		return u, false
	}
	u.Commit = max(u.Commit, u.Snapshot.Index) // a snapshot covers committed entries
	s.saved, s.held = u.State, raftpb.State{}
	if !raftpb.IsEmptySnapshot(u.Snapshot) {
		s.last = u.Snapshot.Index
	}
	if n := len(u.EntriesToSave); n > 0 {
		s.last = u.EntriesToSave[n-1].Index
		s.Turns.note(u.EntriesToSave)
	}
	return u, true
}

func changesMembers(e raftpb.Entry) bool { return e.Type == raftpb.ConfigChangeEntry }

// flush writes the state held back, with a commit index of at least committed.
func (s *logStore) flush(shard, replica, committed uint64) error {
	state := s.state()
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

// ReadRaftState reads the saved state, at a start.
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

// RemoveEntriesTo removes the entries that a snapshot covers.
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
	if snapshot.Filepath != "" {
		snapshot.Filepath = present(s.Dir, snapshot.Filepath)
	}
	return snapshot, s.sound("reading a snapshot's record", err)
}

// Close writes the state held back and closes the store.
func (s *logStore) Close() error {
	s.lock()
	defer s.unlock()
	if err := s.flush(engine.Shard, s.Replica, 0); err != nil {
		return err
	}
	return errors.Join(s.ILogDB.Close(), s.mark.close())
}
