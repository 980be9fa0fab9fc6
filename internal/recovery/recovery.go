// Package recovery makes a group of one out of what is left of a group that has lost its majority for
// good: a data directory, or a backup. It runs without a node, and holds the lock of the directory.
//
// The recovered group has an id and a node of its own. Its tokens begin above all that the former
// group can have granted, and it grants none until the leases of the former group have ended
// (fsm.Recovery). Everything is built beside the former data; one rename replaces them
// (datadir.Offline), so a recovery whose process dies has happened or not, and can be run again.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/backup"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

var (
	// ErrNothing is in the error for directories that hold no group's data.
	ErrNothing = errors.New("holdfast: nothing to recover")
	// ErrClock is in the error where the clock of this machine is behind that of the source.
	ErrClock = errors.New("holdfast: the clock is behind")
)

// clockSlack is how far the clocks of a group may be apart without a word. Tokens are raised beyond
// the clock by as much.
const clockSlack = time.Minute

// Config says what is recovered. Dirs or From is required.
type Config struct {
	Dirs       []*datadir.Offline // candidates: the furthest is replaced. With From one, which has no identity
	From       io.Reader          // a backup; nil: what the directories hold
	Cluster    string             // the fleet's name; "": as the source says
	AllStopped bool
	Floor      uint64                              // no token up to it may be granted any more
	Look       func(context.Context, Former) error // looks for the former group; nil: nobody does
	Now        func() time.Time
	Logger     *slog.Logger
}

// Former is what is known of the group that is recovered.
type Former struct {
	Cluster, ClusterID string
	Voters             []string // nodes, sorted
}

// Report is what a recovery has done.
type Report struct {
	Former
	Dir          *datadir.Offline // which was replaced
	Group, Node  string           // ids of the recovered group and of its node
	Commands     uint64           // number of the last command that the source had
	Index, Term  uint64           // of its last entry; 0 for a backup
	Written      time.Time        // when the source was last written
	Complete     bool             // the directories of most voters were read: nothing that was acknowledged is missing
	Unconfirmed  bool             // the backup was written without a majority
	Counter      uint64           // no token up to it is granted any more
	Wait         time.Duration    // for the leases of the former group
	Values, Keys int
}

// source is the state that goes on.
type source struct {
	Report
	state *fsm.Machine
}

// Run recovers a group.
func Run(ctx context.Context, cfg Config) (Report, error) {
	s, err := cfg.read(ctx)
	if err != nil {
		return Report{}, err
	}
	switch now := cfg.Now(); {
	case cfg.Cluster != "" && s.Cluster != cfg.Cluster:
		return Report{}, fmt.Errorf("%w: the source is of fleet %q, not of %q: correct Cluster, or take the right source",
			datadir.ErrIncompatible, s.Cluster, cfg.Cluster)
	case now.Before(s.Written.Add(-clockSlack)):
		return Report{}, fmt.Errorf("%w: it says %s, and the source was written at %s: set the clock of this machine, since "+
			"tokens would fall", ErrClock, now.UTC().Format(time.RFC3339), s.Written.UTC().Format(time.RFC3339))
	}
	if cfg.Look != nil {
		if err := cfg.Look(ctx, s.Former); err != nil {
			return Report{}, err
		}
	}
	if err := s.recover(cfg); err != nil {
		return Report{}, err
	}
	if err := s.build(ctx, cfg); err != nil {
		return Report{}, fmt.Errorf("holdfast: nothing was recovered, and %s is as it was: see that its disk has room and can be "+
			"written, and run the recovery again: %w", s.Dir.Path(), errors.Join(err, s.Dir.Discard()))
	}
	if err := s.Dir.Replace(s.Node, s.Group, s.Cluster); err != nil {
		return Report{}, fmt.Errorf("holdfast: see that the disk of %s has room and can be written, and run the recovery again: %w",
			s.Dir.Path(), err)
	}
	return s.Report, nil
}

// build makes the new group beside the former data.
func (s *source) build(ctx context.Context, cfg Config) error {
	raft, err := s.Dir.Build()
	if err != nil {
		return err
	}
	return consensus.Found(ctx, consensus.Config{
		Node: s.Node, Cluster: s.Group, Dir: raft, FS: s.Dir.FS(), Logger: cfg.Logger, Wall: cfg.Now,
	}, s.state)
}

// recover gives the state to the new group.
func (s *source) recover(cfg Config) error {
	s.Group, s.Node = datadir.NewID(), datadir.NewID()
	cluster, err := fsm.ParseNode(s.Group)
	if err != nil {
		return err
	}
	now := cfg.Now().Add(clockSlack)
	granted := s.state.Info().Counter // and since then
	if !s.Written.IsZero() {
		granted += fsm.TokensIn(max(now.Sub(s.Written), 0))
	}
	counter := max(granted, fsm.TokensIn(max(now.Sub(time.Unix(0, 0)), 0)), cfg.Floor)
	if err := s.state.Recover(fsm.Recovery{Cluster: [16]byte(cluster), Counter: counter, AllStopped: cfg.AllStopped}); err != nil {
		return err
	}
	info := s.state.Info()
	s.Counter, s.Wait, s.Values, s.Keys = info.Counter, info.Wait, info.Locks, info.Keys
	return nil
}

func (cfg *Config) read(ctx context.Context) (*source, error) {
	if cfg.From != nil {
		return cfg.readBackup()
	}
	return cfg.readDirs(ctx)
}

func (cfg *Config) readBackup() (*source, error) {
	target := cfg.Dirs[0]
	switch id, _ := target.Identity(); {
	case id.ClusterID == "", target.Restored(): // of an earlier run that died late, and granted nothing
	case target.Recovered():
		return nil, fmt.Errorf("%w: %s has group %s, which a recovery has made of the data in it: open a node on it, or put the "+
			"backup into an empty directory", datadir.ErrIncompatible, target.Path(), id.ClusterID)
	default:
		return nil, fmt.Errorf("%w: %s is of a node of group %s: a backup goes into an empty directory",
			datadir.ErrIncompatible, target.Path(), id.ClusterID)
	}
	h, state, err := backup.Read(cfg.From)
	if err != nil {
		return nil, err
	}
	return &source{state: state, Report: Report{
		Former: Former{h.Cluster, h.ClusterID, h.Voters}, Dir: target,
		Commands: h.Commands, Written: h.Written, Unconfirmed: h.Unconfirmed,
	}}, nil
}

// readDirs reads all directories, and returns the furthest. One that an earlier run has recovered, whose
// process died late, counts as it was before.
func (cfg *Config) readDirs(ctx context.Context) (*source, error) {
	var best *source
	var furthest consensus.Reading
	var nodes []string
	var last time.Time
	var done *datadir.Offline // recovered by an earlier run
	for _, dir := range cfg.Dirs {
		was, ok := dir.Replica()
		if !ok {
			return nil, fmt.Errorf("%w: %s holds no data of a group: take the directory of a node that was in one, or a backup", ErrNothing, dir.Path())
		}
		if was.Level > fsm.LevelKnown { // before it is read: a later version may write files that this one takes for damage
			return nil, fmt.Errorf("%w: this version knows feature level %d, and the group was at level %d when a later version ran on %s: recover it with that version",
				datadir.ErrIncompatible, fsm.LevelKnown, was.Level, dir.Path())
		}
		read, err := consensus.Read(ctx, consensus.Config{
			Node: was.NodeID, Incarnation: (was.Incarnation + 1) << consensus.RunBits, Life: was.Life, Cluster: was.ClusterID, Dir: was.Raft, FS: dir.FS(), Logger: cfg.Logger, Wall: cfg.Now,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir.Path(), err)
		}
		if best != nil && best.ClusterID != was.ClusterID {
			return nil, fmt.Errorf("%w: %s is of group %s, and %s of group %s: recover one group at a time",
				datadir.ErrIncompatible, best.Dir.Path(), best.ClusterID, dir.Path(), was.ClusterID)
		}
		if was.Former {
			done = dir
		}
		if was.Written.After(last) {
			last = was.Written
		}
		nodes = append(nodes, was.NodeID)
		if best == nil || read.Further(furthest) {
			furthest = read
			best = &source{state: read.State, Report: Report{
				Former: Former{was.Cluster, was.ClusterID, read.Voters}, Dir: dir,
				Commands: read.State.Commands(), Index: read.Index, Term: read.Term,
			}}
		}
	}
	if done != nil && done != best.Dir {
		id, _ := done.Identity()
		return nil, fmt.Errorf("%w: %s was recovered already, as group %s: open a node on it; or leave it out, and recover %s in its place",
			datadir.ErrIncompatible, done.Path(), id.ClusterID, best.Dir.Path())
	}
	best.Written = last
	voters := slices.DeleteFunc(slices.Clone(best.Voters), func(node string) bool { return !slices.Contains(nodes, node) })
	best.Complete = 2*len(voters) > len(best.Voters)
	return best, nil
}

// InMemory restores a backup into a directory in memory, for a node without a data directory.
func InMemory(ctx context.Context, cfg Config) (datadir.Dir, Report, error) {
	const path = "/holdfast"
	memory := vfs.NewMem()
	offline, err := datadir.CreateOfflineFS(memory, path)
	if err != nil {
		return nil, Report{}, err
	}
	cfg.Dirs = []*datadir.Offline{offline}
	report, err := Run(ctx, cfg)
	if err != nil {
		return nil, Report{}, err
	}
	dir, err := datadir.OpenFS(memory, path, report.Cluster, fsm.Place{})
	return dir, report, err
}
