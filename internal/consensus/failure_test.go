package consensus

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

// faulty is a disk whose operations of one kind fail once it is told so.
type faulty struct {
	kind vfs.Op
	err  error
	on   atomic.Bool
	done atomic.Int64 // operations of the kind, failed or not
}

// MaybeError is asked before every operation.
func (f *faulty) MaybeError(op vfs.Op) error {
	if op != f.kind {
		return nil
	}
	f.done.Add(1)
	if f.on.Load() {
		return f.err
	}
	return nil
}

// mustFail checks what a user sees of a replica that has failed.
func mustFail(t *testing.T, r *replica, cause error) {
	t.Helper()
	r.seen.await(t, "told of the failure", func(seen *recorder) bool { return len(seen.failures) > 0 })
	var failed *FailedError
	if err := r.Failure(); !errors.As(err, &failed) || !errors.Is(err, cause) {
		t.Errorf("failure is %v, want %v", err, cause)
	}
	began := time.Now()
	if _, err := r.Propose(context.Background(), fsm.Encode(birth())); !errors.As(err, &failed) {
		t.Errorf("propose after failure: %v", err)
	}
	if err := r.Barrier(context.Background()); !errors.As(err, &failed) {
		t.Errorf("barrier after failure: %v", err)
	}
	if _, _, ok := r.RaftLeader(); ok || r.IsRaftLeader() {
		t.Error("a failed replica names a raft leader")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("answers after failure took %v", took)
	}
	r.Read(func(m *fsm.Machine) { _ = m.Info() })
	began = time.Now()
	if err := r.Group.Close(); err != nil && !errors.Is(err, ErrAbandoned) {
		t.Errorf("close after failure: %v", err)
	}
	if took := time.Since(began); took > closeWithin+time.Second {
		t.Errorf("close after failure took %v", took)
	}
	r.endpoint.Close()
	if n := len(r.seen.failures); n != 1 {
		t.Errorf("told of the failure %d times", n)
	}
}

func TestFullDiskStopsTheReplicaAndNotTheProcess(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := &faulty{kind: vfs.OpWrite, err: syscall.ENOSPC}
	r := newBench().open(t, 1, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
	r.propose(t, birth())
	disk.on.Store(true)
	var failed *FailedError // at once, not when the attempt ends
	if _, err := r.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 1})); !errors.Is(err, ErrUnknown) || !errors.As(err, &failed) {
		t.Errorf("propose on a full disk: %v", err)
	}
	mustFail(t, r, syscall.ENOSPC)
}

func TestFailedSyncStopsTheReplicaBeforeItAcknowledges(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := &faulty{kind: vfs.OpSync, err: syscall.EIO}
	r := newBench().open(t, 1, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
	r.propose(t, birth())
	disk.on.Store(true)
	if _, err := r.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 1})); !errors.Is(err, ErrUnknown) {
		t.Errorf("propose when sync fails: %v", err)
	}
	disk.on.Store(false) // a second sync after a failed one proves nothing: it must not be tried
	done := disk.done.Load()
	mustFail(t, r, syscall.EIO)
	if r.level() != 1 {
		t.Error("a command was applied that is not on the disk")
	}
	if more := disk.done.Load() - done; more > 1 {
		t.Errorf("%d syncs after the failed one", more)
	}
}

func TestOpenOnADiskThatFailsIsAnErrorInTime(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := &faulty{kind: vfs.OpSync, err: syscall.EIO}
	disk.on.Store(true)
	began := time.Now()
	_, err := newBench().try(1, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
	var failed *FailedError
	if !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("open: %v", err)
	}
	if took := time.Since(began); took > closeWithin+time.Second {
		t.Errorf("open took %v to fail", took)
	}
}

func TestUnknownCommandStopsTheReplicaRatherThanDiverge(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	r := newBench().open(t, 1, vfs.NewMem(), StartBootstrap)
	r.propose(t, birth())
	r.propose(t, fsm.Level{Level: fsm.LevelKnown + 1}) // or it would be refused before the log
	newer := fsm.Encode(birth())
	newer[0] = 200 // a later version of the format
	if _, err := insist(context.Background(), r.Group, newer); !errors.Is(err, ErrUnknown) {
		var failed *FailedError
		if !errors.As(err, &failed) {
			t.Errorf("propose of an unknown command: %v", err)
		}
	}
	mustFail(t, r, ErrUnsupported)
}

func TestBrokenInvariantStopsItsReplicaAlone(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	b := newBench()
	r, other := b.open(t, 1, vfs.NewMem(), StartBootstrap), b.open(t, 2, vfs.NewMem(), StartJoin)
	raft := logger.GetLogger("raft")
	go engine.Labelled(r.cfg.Replica, func() { // as a goroutine of the engine reports it
		go func() { raft.Panicf("invalid commitTo index %d", 14) }()
	})
	mustFail(t, r, ErrInvariant)
	if err := other.Failure(); err != nil {
		t.Errorf("another replica of the process failed with it: %v", err)
	}
	other.close(t)
	if err := engine.Guard(func() error { raft.Panicf("somebody else's engine"); return nil }); !errors.Is(err, ErrInvariant) {
		t.Errorf("panic in a goroutine that is no engine's: %v", err)
	}
}
