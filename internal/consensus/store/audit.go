package store

import (
	"errors"
	"fmt"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

const auditBytes = 4 << 20 // of entries read at a time

// Past is what a replica's directory holds before a start.
type Past struct {
	Fresh  bool // no replica
	Joined bool // the replica was first started to join
	Lost   bool // nothing, but the mark shows that there was a log
}

// Past reads what the directory holds of the replica. It refuses the directory of another replica.
func (s *logStore) Past() (past Past, err error) {
	infos, err := s.ILogDB.ListNodeInfo()
	if err != nil {
		return past, err
	}
	for _, info := range infos {
		if info.ReplicaID != s.Replica {
			return past, fmt.Errorf("%w: it has data of replica %x", ErrForeign, info.ReplicaID)
		}
	}
	at, marked, err := s.mark.read()
	if err != nil {
		return past, err
	}
	boot, err := s.ILogDB.GetBootstrapInfo(engine.Shard, s.Replica)
	past.Fresh = errors.Is(err, raftio.ErrNoBootstrapInfo)
	if err != nil && !past.Fresh {
		return past, err
	}
	past.Joined, past.Lost = boot.Join, past.Fresh && marked && at != Position{}
	return past, nil
}

// Audit reads the whole log before the engine does, which trusts it. It calls begin with the record
// of the last snapshot, visit with each entry, and returns and marks how far the replica has come. A
// log with a gap, or behind the mark, is damaged.
func (s *logStore) Audit(begin func(raftpb.Snapshot), visit func(*raftpb.Entry)) (Position, error) {
	snapshot, err := s.ILogDB.GetSnapshot(engine.Shard, s.Replica)
	if err != nil && !errors.Is(err, raftio.ErrNoSavedLog) {
		return Position{}, err
	}
	state, err := s.ILogDB.ReadRaftState(engine.Shard, s.Replica, snapshot.Index)
	if err != nil && !errors.Is(err, raftio.ErrNoSavedLog) {
		return Position{}, err
	}
	begin(snapshot)
	s.last = snapshot.Index
	if state.EntryCount > 0 {
		s.last = state.FirstIndex + state.EntryCount - 1
		if state.FirstIndex > snapshot.Index+1 {
			return Position{}, fmt.Errorf("%w: the log begins at %d, after a snapshot at %d", ErrDamaged, state.FirstIndex, snapshot.Index)
		}
		if err := s.walk(state.FirstIndex, s.last, visit); err != nil {
			return Position{}, err
		}
	}
	s.Reached.set(s.last)
	at := Position{state.State.Term, state.State.Vote, s.last}
	past, known, err := s.mark.read()
	if err != nil {
		return at, err
	}
	if known && at.Forgets(past) {
		return at, fmt.Errorf("%w: the log ends at %v, but was at %v before", ErrDamaged, at, past)
	}
	return at, s.mark.open(at)
}

// walk visits the entries from first to last.
func (s *logStore) walk(first, last uint64, visit func(*raftpb.Entry)) error {
	term := uint64(0)
	for next := first; next <= last; {
		entries, _, err := s.ILogDB.IterateEntries(nil, 0, engine.Shard, s.Replica, next, last+1, auditBytes)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return fmt.Errorf("%w: entry %d of %d is missing", ErrDamaged, next, last)
		}
		for i := range entries {
			e := &entries[i]
			if e.Index != next || e.Term < term {
				return fmt.Errorf("%w: entry %d of term %d is where %d was due", ErrDamaged, e.Index, e.Term, next)
			}
			visit(e)
			term, next = e.Term, next+1
		}
	}
	return nil
}
