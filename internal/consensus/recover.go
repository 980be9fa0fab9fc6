package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/wire"
	"github.com/holdfast-go/holdfast/transport"
)

// A group that has lost its majority for good is recovered in two steps, both without a network.
// Read reads the state out of the directory of one of its replicas, and Found makes the directory of
// a group of one, which begins with a state. The engine does both: its formats are read and written
// by the code that also runs a group.

// Reading is what the directory of a replica holds.
type Reading struct {
	State            *fsm.Machine // of the last snapshot and of all entries after it, committed or not
	Term             uint64       // of the last entry
	Index            uint64       // of the last entry
	Voters, Standbys []string     // nodes with a replica after the last entry, sorted
}

// Further reports whether a replica with this reading would win an election against the other: the
// rule by which Raft keeps what a majority has acknowledged.
func (r Reading) Further(o Reading) bool {
	return r.Term > o.Term || r.Term == o.Term && r.Index > o.Index
}

// Read reads the directory of a replica that was started before. Config.Node, Incarnation (a
// later one than those of the directory), Life, Cluster, Dir and FS say which. Read changes nothing in
// the directory: what the engine writes stays in memory. The entries that the replica does not know to
// be committed count: the former raft leader may have answered them. Errors are those of Open.
func Read(ctx context.Context, cfg Config) (Reading, error) {
	over, err := newOverlay(cfg.FS, cfg.Dir)
	if err != nil {
		return Reading{}, fmt.Errorf("holdfast: reading %s: %w", cfg.Dir, err)
	}
	var log tail
	cfg.FS, cfg.tail = over, &log
	var state *fsm.Machine
	err = alone(ctx, cfg, StartRestart, func(group *Group) error {
		state = group.Fork()
		return nil
	})
	if err != nil {
		return Reading{}, err
	}
	r := Reading{State: state, Term: log.term, Index: log.index}
	for i := range log.entries {
		e := &log.entries[i]
		if by, cmd, ok := wire.Command(e); ok {
			if out, _ := state.Apply(e.Index, by, cmd); out.Code == fsm.CodeUnsupported {
				return Reading{}, fmt.Errorf("%w (index %d)", ErrUnsupported, e.Index)
			}
			if err := levelError(state, cmp.Or(cfg.Level, fsm.LevelKnown)); err != nil {
				return Reading{}, err
			}
		}
	}
	r.Voters, r.Standbys = slices.Sorted(maps.Values(log.voters)), slices.Sorted(maps.Values(log.standbys))
	return r, nil
}

// Found makes the directory of a new group with one replica, whose state begins as given. The log of
// the group begins with a snapshot, so replicas that join receive that. Config.Node, Cluster, Dir and
// FS say where: the directory is missing or empty. After an error, or if the process dies, the
// directory is to be deleted. Opened by StartRestart, the replica is the group's only voter.
func Found(ctx context.Context, cfg Config, state *fsm.Machine) error {
	cfg.state = state
	err := alone(ctx, cfg, StartBootstrap, func(group *Group) error {
		err := group.Barrier(ctx)
		for ; err != nil && group.Failure() == nil && ctx.Err() == nil; err = group.Barrier(ctx) {
			<-time.After(aloneTick) // it is not raft leader yet, or the machine is busy
		}
		if err != nil {
			return err
		}
		if !group.snapshot() {
			return errors.New("the first snapshot was not written")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("holdfast: making a group of one in %s: %w", cfg.Dir, err)
	}
	return nil
}

// aloneTick is the tick of a replica that reaches no other node: it waits for no network.
const aloneTick = time.Millisecond

// alone opens a replica that reaches no other node, and closes it after f.
func alone(ctx context.Context, cfg Config, how Start, f func(*Group) error) (err error) {
	endpoint, err := transport.NewMemory(1).Listen(ctx, "127.0.0.1:0", transport.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endpoint.Close()) }()
	cfg.Incarnation = max(cfg.Incarnation, 1<<RunBits)
	cfg.Endpoint, cfg.Observer = endpoint, deaf{}
	cfg.Resolve = func(string) (string, bool) { return "", false }
	cfg.Tick, cfg.Heartbeat, cfg.Election = aloneTick, 5*aloneTick, 50*aloneTick
	group, err := Open(ctx, cfg, how)
	if err != nil {
		return err
	}
	return errors.Join(f(group), group.Close())
}

// deaf observes nothing.
type deaf struct{}

func (deaf) Applied([]fsm.Event)   {}
func (deaf) Restored(*fsm.Machine) {}
func (deaf) LeaderChanged()        {}
func (deaf) Failed(error)          {}

// tail collects what the log of a replica holds after its last snapshot. A nil tail collects nothing.
type tail struct {
	term, index uint64 // of the last entry
	voters      map[uint64]string
	standbys    map[uint64]string
	entries     []raftpb.Entry
}

func (t *tail) snapshot(s raftpb.Snapshot) {
	if t == nil {
		return
	}
	t.term, t.index = s.Term, s.Index
	t.voters, t.standbys = make(map[uint64]string), make(map[uint64]string)
	maps.Copy(t.voters, s.Membership.Addresses)
	maps.Copy(t.standbys, s.Membership.NonVotings)
}

func (t *tail) entry(e *raftpb.Entry) {
	if t == nil || e.Index <= t.index {
		return // the snapshot has it
	}
	t.term, t.index = e.Term, e.Index
	if e.Type != raftpb.ConfigChangeEntry {
		t.entries = append(t.entries, *e)
		return
	}
	var change raftpb.ConfigChange
	if engine.Guard(func() error { return change.Unmarshal(e.Cmd) }) != nil {
		return // the engine refuses the log
	}
	delete(t.standbys, change.ReplicaID)
	switch change.Type {
	case raftpb.AddNode:
		t.voters[change.ReplicaID] = change.Address
	case raftpb.AddNonVoting:
		t.standbys[change.ReplicaID] = change.Address
	case raftpb.RemoveNode:
		delete(t.voters, change.ReplicaID)
	}
}
