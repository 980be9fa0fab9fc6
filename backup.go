package holdfast

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backup"
)

// Backup writes the state of the group, as it was at one command: values, finished Once keys, and who
// held what. It is a stream with a version and a checksum, and other calls go on meanwhile: a slow w
// costs memory for what changes until it ends. A node that reaches no majority within some seconds
// writes what its own replica has, and marks that in the backup. On a client the replica that it hangs
// on writes the backup. Recover and Config.Restore make a group of it, on any machine.
//
// Errors: that of w; that of ctx; ErrClosed; ErrNoQuorum for a node that belongs to no group; on a
// client that of a connection that ended in between. What was written before an error is no backup. A
// second call, at the same time or later, writes another one.
func (c *Cluster) Backup(ctx context.Context, w io.Writer) error {
	switch {
	case ctx == nil:
		return invalid("context", "is nil")
	case w == nil:
		return invalid("writer", "is nil")
	}
	return c.explain(c.node.Backup(ctx, w))
}

// BackupInfo says what a backup is of.
type BackupInfo struct {
	Cluster, ClusterID string // name of the fleet, id of the group
	Commands           uint64 // number of the last command in it
	Written            time.Time
	Unconfirmed        bool // by a node without a majority: it may lack what the group has answered
	Names, Keys        int  // locks in use or with a value, finished Once keys
}

// CheckBackup reads a backup to its end, and returns what it is of. It says whether Recover can read
// it: ErrDamaged for one that is truncated or altered, ErrIncompatible for one of a newer version.
func CheckBackup(r io.Reader) (BackupInfo, error) {
	h, state, err := backup.Read(r)
	if err != nil {
		return BackupInfo{}, recoverError(err)
	}
	info := state.Info()
	return BackupInfo{h.Cluster, h.ClusterID, h.Commands, h.Written, h.Unconfirmed, info.Locks, info.Keys}, nil
}

// Backups counts the backups of Config.BackupEvery that this node has made as raft leader.
type Backups struct {
	Stored, Failed uint64
	Last           uint64 // Unix time in seconds at which the last one was stored, 0 if there is none
}

type backupCounters struct{ stored, failed, last atomic.Uint64 }

func (b *backupCounters) read() Backups {
	return Backups{b.stored.Load(), b.failed.Load(), b.last.Load()}
}

// backUp makes a backup each Config.BackupEvery while this node is raft leader.
func (c *Cluster) backUp(ctx context.Context) {
	tick := time.NewTicker(c.cfg.BackupEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if c.node.Status().RaftLeader != c.ID() {
			continue
		}
		if err := c.storeBackup(ctx); err == nil {
			c.counters.backups.stored.Add(1)
			c.counters.backups.last.Store(uint64(time.Now().Unix()))
		} else if ctx.Err() == nil {
			c.counters.backups.failed.Add(1)
			c.log.Error("storing a backup failed: the next attempt is after Config.BackupEvery", "error", err)
		}
	}
}

// storeBackup has Config.BackupTo read a backup. What the function panics with is its error.
func (c *Cluster) storeBackup(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := c.Backup(ctx, writer)
		writer.CloseWithError(err) // nil is the end of the file
		written <- err
	}()
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: Config.BackupTo panicked: %v", value)
		}
		reader.CloseWithError(io.ErrClosedPipe)
		cancel()
		if failed := <-written; err == nil {
			err = failed // also of a function that did not read to the end
		}
	}()
	return c.cfg.BackupTo(ctx, reader)
}
