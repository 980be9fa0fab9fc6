package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/holdfast-go/holdfast/internal/process"
)

// hashiraftSystem is three processes with hashicorp/raft and a small lock table. raft-boltdb syncs
// every batch of the log. Calls are made on the raft leader: nothing forwards them.
type hashiraftSystem struct{}

func (hashiraftSystem) obtain(context.Context, *store) error { return nil }

func (hashiraftSystem) start(_ context.Context, dir string) (*cluster, error) {
	addrs, err := process.FreeAddrs(3)
	if err != nil {
		return nil, err
	}
	return embed("hashiraft", addrs, three(dir))
}

func (hashiraftSystem) leader(ctx context.Context, c *cluster) (int, error) {
	return c.seatOfLeader(ctx)
}

type hashiraftLocks struct {
	raft  *raft.Raft
	table *lockTable
	logs  *raftboltdb.BoltStore
	id    string
	last  atomic.Uint64 // caller
}

func openHashiraft(s startup) (locks, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	logs, err := raftboltdb.NewBoltStore(filepath.Join(s.Dir, "raft.db"))
	if err != nil {
		return nil, err
	}
	snapshots, err := raft.NewFileSnapshotStore(s.Dir, 1, io.Discard)
	if err != nil {
		return nil, err
	}
	wire, err := raft.NewTCPTransport(s.Addrs[s.Index], nil, 3, time.Second, io.Discard)
	if err != nil {
		return nil, err
	}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(s.Addrs[s.Index])
	config.HeartbeatTimeout, config.ElectionTimeout = 500*time.Millisecond, 500*time.Millisecond
	config.LeaderLeaseTimeout = 250 * time.Millisecond
	config.BatchApplyCh, config.MaxAppendEntries = true, 512 // large batches, for its rate under load
	config.Logger = hclog.NewNullLogger()
	var all raft.Configuration
	for _, addr := range s.Addrs {
		one := raft.Server{ID: raft.ServerID(addr), Address: raft.ServerAddress(addr)}
		all.Servers = append(all.Servers, one)
	}
	if err := raft.BootstrapCluster(config, logs, logs, snapshots, wire, all); err != nil {
		return nil, err
	}
	h := &hashiraftLocks{table: newLockTable(), logs: logs, id: strconv.Itoa(s.Index)}
	h.raft, err = raft.NewRaft(config, h.table, logs, logs, snapshots, wire)
	return h, err
}

func (h *hashiraftLocks) leads() bool { return h.raft.State() == raft.Leader }

func (h *hashiraftLocks) Close() error {
	return errors.Join(h.raft.Shutdown().Error(), h.logs.Close())
}

func (h *hashiraftLocks) caller(context.Context, bool) (caller, error) {
	who := h.id + "-" + strconv.FormatUint(h.last.Add(1), 10)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		what := who + " " + name
		granted := h.table.want(what)
		defer h.table.forget(what)
		if err := h.apply(ctx, tableAcquire+" "+what); err != nil {
			return nil, err
		}
		select {
		case <-granted:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return func(ctx context.Context) error { return h.apply(ctx, tableRelease+" "+what) }, nil
	}, nil
}

// apply proposes a command and waits until it is applied.
func (h *hashiraftLocks) apply(ctx context.Context, command string) error {
	patience := callMax
	if end, ok := ctx.Deadline(); ok {
		patience = time.Until(end)
	}
	return h.raft.Apply([]byte(command), patience).Error()
}
