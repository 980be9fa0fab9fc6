package consensus

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

const auditBytes = 4 << 20 // of entries read at a time

// began reports whether the replica is new here, and whether it was or is to be started to join. A
// directory that does not fit how it is to be started is refused.
func (s *logStore) began(how Start) (fresh, join bool, err error) {
	infos, err := s.ILogDB.ListNodeInfo()
	if err != nil {
		return false, false, err
	}
	for _, info := range infos {
		if info.ReplicaID != s.replica {
			return false, false, fmt.Errorf("%w: it has data of replica %x", ErrForeign, info.ReplicaID)
		}
	}
	past, marked, err := s.mark.read()
	if err != nil {
		return false, false, err
	}
	boot, err := s.ILogDB.GetBootstrapInfo(shard, s.replica)
	fresh = errors.Is(err, raftio.ErrNoBootstrapInfo)
	switch {
	case err != nil && !fresh:
		return false, false, err
	case fresh && (how == StartRestart || marked && past != position{}):
		return false, false, ErrNoReplica
	case fresh:
		return true, how == StartJoin, nil
	case how != StartRestart && boot.Join != (how == StartJoin):
		return false, false, fmt.Errorf("%w, not by %v", ErrOtherStart, how)
	}
	return false, boot.Join, nil
}

// audit reads the whole log before the engine does, which trusts it. It shows the members in the
// snapshot, and each entry to visit, and returns how far the replica has come. A log with a gap, or
// with less than the mark says, is damaged.
func (s *logStore) audit(members func(raftpb.Membership), visit func(*raftpb.Entry)) (position, error) {
	snapshot, err := s.ILogDB.GetSnapshot(shard, s.replica)
	if err != nil && !errors.Is(err, raftio.ErrNoSavedLog) {
		return position{}, err
	}
	state, err := s.ILogDB.ReadRaftState(shard, s.replica, snapshot.Index)
	if err != nil && !errors.Is(err, raftio.ErrNoSavedLog) {
		return position{}, err
	}
	members(snapshot.Membership)
	s.last = snapshot.Index
	if state.EntryCount > 0 {
		s.last = state.FirstIndex + state.EntryCount - 1
		if state.FirstIndex > snapshot.Index+1 {
			return position{}, fmt.Errorf("%w: the log begins at %d, after a snapshot at %d", ErrDamaged, state.FirstIndex, snapshot.Index)
		}
		if err := s.walk(state.FirstIndex, s.last, visit); err != nil {
			return position{}, err
		}
	}
	s.reached.set(s.last)
	at := position{state.State.Term, state.State.Vote, s.last}
	past, known, err := s.mark.read()
	if err != nil {
		return at, err
	}
	if known && at.forgets(past) {
		return at, fmt.Errorf("%w: the log ends at %v, but was at %v before", ErrDamaged, at, past)
	}
	return at, nil
}

// walk visits the entries from first to last.
func (s *logStore) walk(first, last uint64, visit func(*raftpb.Entry)) error {
	term := uint64(0)
	for next := first; next <= last; {
		entries, _, err := s.ILogDB.IterateEntries(nil, 0, shard, s.replica, next, last+1, auditBytes)
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

// hellos returns the Hello of an entry that carries one.
func hellos() func(*raftpb.Entry) (fsm.Hello, bool) {
	header := fsm.Encode(fsm.Hello{})[:2]
	return func(e *raftpb.Entry) (hello fsm.Hello, ok bool) {
		by, encoded := cutEncoded(e)
		if !bytes.HasPrefix(encoded, header) {
			return hello, false
		}
		cmd, err := fsm.Decode(encoded)
		if err == nil {
			hello, ok = cmd.(fsm.Hello)
		}
		return hello, ok && fsm.ProcessOf(hello) == by
	}
}
