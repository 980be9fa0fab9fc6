package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/statemachine"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/consensus/store"
	"github.com/holdfast-go/holdfast/internal/tally"
)

type engine struct {
	host    *dragonboat.NodeHost
	session *client.Session
	replica uint64
	voters  int
	payload []byte
}

const (
	engineShard   = 1
	enginePatient = 600 * time.Millisecond // as Holdfast's
	commandBytes  = 64                     // the size of the commands that callers make here
)

func startEngine(s startup) (*engine, error) {
	tick, heartbeat, election := report.Pace(s.Timing.Tick, s.Timing.Heartbeat, s.Timing.Election)
	log.SetOutput(io.Discard) // the store's complaints about the file system in memory
	for _, name := range []string{"dragonboat", "raft", "raftpb", "rsm", "transport", "logdb", "tan", "config"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	logDB := config.GetTinyMemLogDBConfig()
	logDB.Shards = 1
	hostConfig := config.NodeHostConfig{
		DeploymentID: 7, NodeHostDir: s.DataDir, RTTMillisecond: uint64(tick / time.Millisecond), RaftAddress: s.Addrs[s.Index],
		MaxSendQueueSize: 64 << 20, MaxReceiveQueueSize: 64 << 20,
		Expert: config.ExpertConfig{
			LogDBFactory: oneSync(s),
			LogDB:        logDB,
			Engine:       config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1, SnapshotShards: 2, CloseShards: 2},
		},
	}
	if s.DataDir == "" {
		hostConfig.NodeHostDir, hostConfig.Expert.FS = "/engine", vfs.NewMem()
	}
	host, err := dragonboat.NewNodeHost(hostConfig)
	if err != nil {
		return nil, err
	}
	e := &engine{
		host: host, session: host.GetNoOPSession(engineShard), replica: uint64(s.Index + 1), voters: s.Voters,
		payload: make([]byte, commandBytes),
	}
	members := make(map[uint64]dragonboat.Target)
	for i, addr := range s.Addrs[:s.Voters] {
		members[uint64(i+1)] = addr
	}
	follows := s.Index >= s.Voters
	if follows {
		members = nil
	}
	create := func(uint64, uint64) statemachine.IConcurrentStateMachine { return &emptyMachine{} }
	err = host.StartConcurrentReplica(members, follows, create, config.Config{
		ReplicaID: e.replica, ShardID: engineShard, CheckQuorum: true, PreVote: true, OrderedConfigChange: true,
		ElectionRTT: uint64(election / tick), HeartbeatRTT: uint64(heartbeat / tick), SnapshotEntries: 20_000, CompactionOverhead: 5_000, MaxInMemLogSize: 128 << 20,
		SnapshotCompressionType: config.Snappy, EntryCompressionType: config.NoCompression, IsNonVoting: follows, WaitReady: true,
	})
	if err != nil {
		host.Close()
		return nil, err
	}
	return e, nil
}

// oneSync gives the engine alone the log store of Holdfast: one fsync for each commit instead of two.
func oneSync(s startup) store.Factory {
	return store.New(store.Config{
		FS: vfs.Default, Dir: s.DataDir, Replica: uint64(s.Index + 1),
		Reached: &store.Depth{}, Turns: &store.Turns{}, Committed: &atomic.Uint64{}, Fsync: &tally.Histogram{}, Writing: tally.NewWaiting(),
		Fail: func(err error) { panic(err) },
	})
}

// ready waits for a raft leader; the raft leader adds the standbys.
func (e *engine) ready(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := e.host.SyncRead(try, engineShard, nil)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (e *engine) admit(ctx context.Context, replica uint64, addr string) error {
	m, err := e.host.SyncGetShardMembership(ctx, engineShard)
	if err != nil {
		return err
	}
	return e.host.SyncRequestAddNonVoting(ctx, engineShard, replica, addr, m.ConfigChangeID)
}

func (e *engine) role() (name string, term uint64) {
	leader, term, known, err := e.host.GetLeaderID(engineShard)
	switch {
	case e.replica > uint64(e.voters):
		return roleStandby, term
	case err != nil || !known:
		return "", term
	case leader == e.replica:
		return roleLeader, term
	}
	return roleFollower, term
}

func (e *engine) operation(what string, _ int) (func(context.Context) error, error) {
	switch what {
	case opWrite:
		return func(ctx context.Context) error {
			return e.wait(ctx, func() (*dragonboat.RequestState, error) {
				return e.host.Propose(e.session, e.payload, enginePatient)
			})
		}, nil
	case opRead:
		return func(ctx context.Context) error {
			return e.wait(ctx, func() (*dragonboat.RequestState, error) { return e.host.ReadIndex(engineShard, enginePatient) })
		}, nil
	}
	return nil, fmt.Errorf("the engine does no %s", what)
}

// wait asks until the engine has done it: an overloaded engine refuses and drops.
func (e *engine) wait(ctx context.Context, ask func() (*dragonboat.RequestState, error)) error {
	for {
		state, err := ask()
		switch {
		case errors.Is(err, dragonboat.ErrSystemBusy):
			time.Sleep(time.Millisecond)
			continue
		case err != nil:
			return err
		}
		select {
		case result := <-state.AppliedC():
			state.Release()
			if result.Completed() {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close stops the engine.
func (e *engine) Close() error {
	e.host.Close()
	return nil
}

type emptyMachine struct{}

// Update returns 1 for every command.
func (*emptyMachine) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	for i := range entries {
		entries[i].Result.Value = 1
	}
	return entries, nil
}

// Lookup returns nothing.
func (*emptyMachine) Lookup(any) (any, error) { return nil, nil }

// PrepareSnapshot has nothing to prepare.
func (*emptyMachine) PrepareSnapshot() (any, error) { return nil, nil }

// SaveSnapshot writes nothing.
func (*emptyMachine) SaveSnapshot(any, io.Writer, statemachine.ISnapshotFileCollection, <-chan struct{}) error {
	return nil
}

// RecoverFromSnapshot reads nothing.
func (*emptyMachine) RecoverFromSnapshot(io.Reader, []statemachine.SnapshotFile, <-chan struct{}) error {
	return nil
}

// Close does nothing.
func (*emptyMachine) Close() error { return nil }
