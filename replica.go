//go:build !holdfast_client

package holdfast

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/node"
	"github.com/holdfast-go/holdfast/internal/recovery"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/transport"
)

// newNode makes a node that may hold a replica. This file has all that links the Raft engine.
func (c *Cluster) newNode(env simenv.Env) (seam.Node, error) {
	cfg := &c.cfg
	bind, err := cfg.bind()
	if err != nil {
		return nil, err
	}
	return node.New(node.Config{
		Cluster: cfg.Cluster, Name: cfg.Name, Zone: cfg.Zone, DataDir: cfg.DataDir,
		Bind: bind, Advertise: cfg.Advertise, Join: cfg.Join, Bootstrap: cfg.Bootstrap, Voters: cfg.Voters, Replicas: cfg.Replicas,
		Secrets: cfg.Secrets, TLS: cfg.TLS, MaxTTL: cfg.MaxTTL, Restore: cfg.Restore,
		Tick: cfg.Timing.Tick, Heartbeat: cfg.Timing.Heartbeat, Election: cfg.Timing.Election,
		ReplaceAfter: cfg.ReplaceAfter, HoldLevel: cfg.HoldLevel, MaxClockDrift: cfg.MaxClockDrift, Moment: cfg.Timing.moment(), TokenFloor: cfg.TokenFloor,
		Logger: cfg.Logger, Figures: &c.counters.raft, Env: env, Listener: listener{c},
	}), nil
}

// RecoverConfig says what Recover recovers, and what the operator knows.
type RecoverConfig struct {
	// DataDir is the directory of a node of the group; with From the directory, empty or missing,
	// that the backup goes into, or as an earlier restore left it. No process may have it open.
	DataDir string
	// DataDirs are directories of further nodes of the same group, on this machine. Of all the one
	// that had come furthest is recovered, and the others stay as they are. With the directories of a
	// majority of the voters nothing is missing afterwards.
	DataDirs []string
	// From is a backup (Cluster.Backup). Default nil: what the directories hold.
	From io.Reader
	// AllStopped says that no process of the former group runs, wherever it is: the recovered group
	// grants locks at once. Default: it grants none until the longest lease of the former group
	// (Config.MaxTTL, as the source has it or the nodes that open it, whichever is longer) has ended,
	// counted from the opening of its first node; a restart counts anew.
	AllStopped bool
	// TokenFloor is the highest token that a resource has seen. Tokens are above it, above the
	// counter of the former group, and above this machine's clock. Optional.
	TokenFloor Token
	// Logger receives what the Raft engine has to say. Default: slog.Default().
	Logger *slog.Logger

	// Recover looks for the former group before it changes anything, and refuses where it sees as many
	// of its nodes with a replica, standbys included, as most of its voters are that the source knows; where
	// one of them answers that a majority of the voters of now answers it; where addresses of Join
	// answer that do not let it in, and may be the rest of a majority; and where it sees a node in another
	// group of the fleet, which another recovery has made. Join, Secrets, TLS and Bind are those of
	// Config; Bind may have another port.
	Join    []string
	Secrets []string
	TLS     *tls.Config
	Bind    string
	// Cluster is the name of the fleet. Default: as the directory or the backup says.
	Cluster string
	// Unseen says that Recover shall not look. Without it Join is required.
	Unseen bool
}

// RecoverReport says what Recover has done. String puts it in words.
type RecoverReport struct {
	DataDir      string        // that is the recovered group's now; before-recovery in it is what was there
	OldClusterID string        // of the former group
	ClusterID    string        // of the recovered group
	NodeID       string        // of its only node
	OldVoters    []string      // nodes of the former group that voted, as far as the source knows
	Commands     uint64        // number of the last command that the source had
	Index, Term  uint64        // of the last entry of its log; 0 for a backup
	Written      time.Time     // when it was last written
	Complete     bool          // nothing that the former group has acknowledged is missing
	Unconfirmed  bool          // the backup was written by a node without a majority
	Token        Token         // every token of the recovered group is higher
	Wait         time.Duration // after the opening of the first node, before the first grant; Config.MaxTTL there, if that is longer
	Names        int           // locks that have a value or rest
	Keys         int           // finished Once keys
}

func (r RecoverReport) String() string {
	missing := "What the former group answered after that, if anything, is missing."
	if r.Complete {
		missing = "The directories are those of a majority of the voters: nothing that the former group answered is missing."
	}
	wait := "It grants locks at once."
	if r.Wait > 0 {
		wait = fmt.Sprintf("It grants no lock until %v after its first node is opened.", r.Wait)
	}
	return fmt.Sprintf("Group %s is recovered as group %s in %s. The source had %d commands, and was last written at %s. %s "+
		"%d names and %d finished keys are kept, and all sessions have ended. Every token is above %d. %s",
		r.OldClusterID, r.ClusterID, r.DataDir, r.Commands, r.Written.UTC().Format(time.RFC3339), missing, r.Names, r.Keys, r.Token, wait)
}

// Recover makes a group of one out of a data directory, or of a backup, whose group has lost its
// majority for good. No node runs meanwhile: Recover holds the lock of the directory. Afterwards open
// a node on the directory; the other nodes join it with empty directories. Read
// docs/operations.md#when-the-majority-is-lost-for-good first: a group that is recovered while its
// majority lives grants locks a second time, and only tokens keep the two apart.
//
// The recovered group has another cluster id, values and finished Once keys, no session, and tokens
// above all that were ever granted. Nodes of the former group refuse it, and end on their own.
// Recover can be run again after an error, and after its process died: until its last step the
// directory is as it was, and thereafter, until a node opens it, the group is made anew of what is in
// before-recovery. It needs room for the state, on the disk and in memory.
// The directory as it was stays in DataDir/before-recovery.
//
// Errors: ErrInvalid for a field of cfg, and where what answers at an address of Join takes this for
// no node of its fleet, or hangs; ErrDirInUse; ErrDamaged and ErrIncompatible for what the source holds;
// ErrGroupAlive; ErrClockBehind; the error of ctx, which ends it between two steps; and those of the
// system. Each text says what to do.
func Recover(ctx context.Context, cfg RecoverConfig) (RecoverReport, error) {
	if ctx == nil {
		return RecoverReport{}, invalid("context", "is nil")
	}
	if err := cfg.validate(); err != nil {
		return RecoverReport{}, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	dirs, err := cfg.openDirs()
	defer func() {
		for _, dir := range dirs {
			_ = dir.Close()
		}
	}()
	if err != nil {
		return RecoverReport{}, recoverError(err)
	}
	run := recovery.Config{
		Dirs: dirs, From: cfg.From, Cluster: cfg.Cluster, AllStopped: cfg.AllStopped, Floor: uint64(cfg.TokenFloor),
		Now: time.Now, Logger: cfg.Logger,
	}
	if !cfg.Unseen {
		run.Look = cfg.look
	}
	report, err := recovery.Run(ctx, run)
	if err != nil {
		return RecoverReport{}, recoverError(err)
	}
	return reportOf(report), nil
}

func reportOf(r recovery.Report) RecoverReport {
	return RecoverReport{
		DataDir: r.Dir.Path(), OldClusterID: r.Former.ClusterID, ClusterID: r.Group, NodeID: r.Node, OldVoters: r.Voters,
		Commands: r.Commands, Index: r.Index, Term: r.Term, Written: r.Written, Complete: r.Complete, Unconfirmed: r.Unconfirmed,
		Token: Token(r.Counter), Wait: r.Wait, Names: r.Values, Keys: r.Keys,
	}
}

func (cfg *RecoverConfig) validate() error {
	switch {
	case cfg.DataDir == "" && (cfg.From != nil || len(cfg.DataDirs) == 0):
		return invalid("RecoverConfig.DataDir", "is empty")
	case cfg.From != nil && len(cfg.DataDirs) > 0:
		return invalid("RecoverConfig.DataDirs", "cannot be combined with From")
	case cfg.TokenFloor > fence.TokenMax:
		return invalid("RecoverConfig.TokenFloor", "%d is no token", cfg.TokenFloor)
	case !cfg.Unseen && len(cfg.Join) == 0:
		return invalid("RecoverConfig.Join", "is empty: name where the nodes of the group were, so that a majority that lives is "+
			"found; or set Unseen if you know that there is none")
	}
	if cfg.Unseen {
		return nil
	}
	node := Config{Bind: cfg.Bind, Join: cfg.Join, Secrets: cfg.Secrets, TLS: cfg.TLS, Bootstrap: -1}
	if node.Bind == "" && (len(cfg.Secrets) > 0 || cfg.TLS != nil) {
		node.Bind = "0.0.0.0:0"
	}
	node = node.withDefaults()
	cfg.Bind = node.Bind
	return node.validate()
}

// openDirs opens the directories, each once.
func (cfg *RecoverConfig) openDirs() (dirs []*datadir.Offline, err error) {
	paths := cfg.DataDirs
	if cfg.DataDir != "" {
		paths = append([]string{cfg.DataDir}, paths...)
	}
	open := datadir.OpenOffline
	if cfg.From != nil {
		open = datadir.CreateOffline
	}
	for _, path := range paths {
		dir, err := open(path)
		if err != nil {
			return dirs, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// look looks for the former group.
func (cfg *RecoverConfig) look(ctx context.Context, former recovery.Former) error {
	security, keys, err := transport.Security(former.Cluster, cfg.Secrets, cfg.TLS)
	if err != nil {
		return err
	}
	network := transport.TCP()
	if env, ok := simenv.From(ctx); ok && env.Network != nil {
		network = env.Network
	}
	bind, err := Config{Bind: cfg.Bind}.bind()
	if err != nil {
		return err
	}
	endpoint, err := network.Listen(ctx, bind, transport.Options{TLS: security, Logger: cfg.Logger})
	if err != nil {
		return fmt.Errorf("holdfast: looking for the former group: %w", err)
	}
	search := recovery.Search{
		Join: cfg.Join, Endpoint: endpoint, Keys: keys, Streams: security != nil && len(keys) == 0, Logger: cfg.Logger,
	}
	return errors.Join(search.Look(ctx, former), endpoint.Close())
}

// recoverError adds the value that a caller branches on. The ways out are in the texts: no directory
// is to be deleted where a group is to be recovered from it.
func recoverError(err error) error {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(recovery.ErrAlive), is(recovery.ErrBeside):
		return fmt.Errorf("%w: %w", ErrGroupAlive, err)
	case is(recovery.ErrStrange):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case is(recovery.ErrClock):
		return fmt.Errorf("%w: %w", ErrClockBehind, err)
	case is(recovery.ErrNothing):
		return fmt.Errorf("%w: %w", ErrIncompatible, err)
	case is(fs.ErrNotExist):
		return fmt.Errorf("holdfast: there is no such data directory: %w", err)
	}
	err = dirError(backupError(err))
	return &sourceError{strings.ReplaceAll(err.Error(), anew, "take the directory of another node, or a backup"), err}
}

// sourceError is an error of a source, without the advice to delete what a group may be recovered
// from.
type sourceError struct {
	text string
	err  error
}

func (e *sourceError) Error() string { return e.text }

// Unwrap is what the caller branches on.
func (e *sourceError) Unwrap() error { return e.err }
