package consensus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

// nth is a disk whose nth operation of any kind fails, and all later ones with sticky.
type nth struct {
	at     int64
	sticky bool
	err    error
	done   atomic.Int64
	failed atomic.Int64
}

// MaybeError is asked before every operation.
func (d *nth) MaybeError(vfs.Op) error {
	n := d.done.Add(1)
	if n == d.at || d.sticky && d.at > 0 && n > d.at {
		d.failed.Add(1)
		return d.err
	}
	return nil
}

// snapshots opens a replica, makes it write its log, snapshots and what removes old ones, and
// closes it. The error is that of the call that failed.
func snapshots(n int, fs vfs.FS, how Start) (*replica, error) {
	b := newBench()
	b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 20, 5 }
	r, err := b.try(n, fs, how)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	level := r.level()
	if _, err := insist(ctx, r.Group, fsm.Encode(birth())); err != nil {
		return r, err
	}
	for range 100 {
		level++
		if _, err := insist(ctx, r.Group, fsm.Encode(fsm.Level{Level: level})); err != nil {
			return r, err
		}
	}
	return r, nil
}

func TestAnErrorOfTheDiskAtAnyCallNeverEndsTheProcess(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	whole := &nth{}
	r, err := snapshots(1, vfs.Wrap(vfs.NewMem(), whole), StartBootstrap)
	if err != nil {
		t.Fatal(err)
	}
	r.close(t)
	const samples = 40
	total := whole.done.Load()
	turns := make(chan struct{}, 20)
	var all sync.WaitGroup
	for i := range int64(samples) {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			disk := &nth{at: 1 + i*total/samples, sticky: i%4 == 0, err: syscall.EIO}
			fails(t, int(i)+1, disk)
		})
	}
	all.Wait()
}

// fails runs a replica on a disk that fails: what does not go wrong must have done no harm.
func fails(t *testing.T, n int, disk *nth) {
	r, err := snapshots(n, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
	what := fmt.Sprintf("operation %d, %d failed", disk.at, disk.failed.Load())
	if err != nil && !errors.Is(err, syscall.EIO) && !strings.Contains(err.Error(), syscall.EIO.Error()) {
		t.Errorf("%s: the caller was told %v", what, err)
	}
	if r == nil {
		return
	}
	if err := r.Failure(); err != nil && !errors.Is(err, syscall.EIO) {
		t.Errorf("%s: the replica failed with %v", what, err)
	}
	began := time.Now()
	if err := r.Group.Close(); err != nil && !errors.Is(err, ErrAbandoned) {
		t.Errorf("%s: close: %v", what, err)
	}
	if took := time.Since(began); took > 2*closeWithin { // many engines share the machine, and one may be abandoned
		t.Errorf("%s: close took %v", what, took)
	}
	r.endpoint.Close()
}

// unfinished is a disk on which no snapshot can be given its final name, which the engine does
// under a lock that all engines of the process share.
type unfinished struct{ vfs.FS }

func (d unfinished) Rename(from, to string) error {
	if strings.HasSuffix(from, ".generating") {
		return syscall.EIO
	}
	return d.FS.Rename(from, to)
}

func TestAReplicaThatFailsInASnapshotHoldsUpNoOtherOfTheProcess(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	failed, err := snapshots(1, unfinished{vfs.NewMem()}, StartBootstrap)
	if err == nil {
		failed.seen.await(t, "told of the failure", func(seen *recorder) bool { return len(seen.failures) > 0 })
	}
	mustFail(t, failed, syscall.EIO)
	fs := vfs.NewMem()
	r, err := snapshots(2, fs, StartBootstrap)
	if err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "a snapshot", func() bool {
		found := false
		walk(fs, "/", func(name string) { found = found || strings.HasSuffix(name, ".gbsnap") })
		return found
	})
	began := time.Now()
	r.close(t)
	if took := time.Since(began); took >= closeWithin {
		t.Errorf("close took %v", took)
	}
}

// walk visits every name below dir.
func walk(fs vfs.FS, dir string, visit func(name string)) {
	list, _ := fs.List(dir)
	for _, name := range list {
		name = fs.PathJoin(dir, name)
		visit(name)
		walk(fs, name, visit)
	}
}

func TestALackOfDescriptorsIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.tune = func(c *Config) { c.SnapshotEntries, c.SnapshotKeep = 20, 5 }
	scarce := &scarce{FS: vfs.NewMem()}
	r := b.open(t, 1, scarce, StartBootstrap)
	r.propose(t, birth())
	scarce.on.Store(true)
	for level := range uint64(60) { // enough for snapshots, which cannot be made now
		r.propose(t, fsm.Level{Level: level + 1})
	}
	eventuallyTrue(t, "a file that could not be opened", func() bool { return scarce.refused.Load() > 3 })
	if err := r.Failure(); err != nil {
		t.Errorf("the replica failed for want of descriptors: %v", err)
	}
	made := scarce.opened.Load()
	scarce.on.Store(false)
	eventuallyTrue(t, "the file to be opened in the end", func() bool { return scarce.opened.Load() > made })
	r.propose(t, fsm.Level{Level: 61})
	r.barrier(t)
	r.close(t)
}

// eventuallyTrue waits for something that nobody announces.
func eventuallyTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); pause() {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// scarce is a disk on which, while on, no file can be opened for want of descriptors.
type scarce struct {
	vfs.FS
	on              atomic.Bool
	refused, opened atomic.Int64
}

func (s *scarce) take(f func() (vfs.File, error)) (vfs.File, error) {
	if s.on.Load() {
		s.refused.Add(1)
		return nil, syscall.EMFILE
	}
	s.opened.Add(1)
	return f()
}

func (s *scarce) Create(name string) (vfs.File, error) {
	return s.take(func() (vfs.File, error) { return s.FS.Create(name) })
}

func (s *scarce) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.take(func() (vfs.File, error) { return s.FS.Open(name, opts...) })
}

func (s *scarce) OpenDir(name string) (vfs.File, error) {
	return s.take(func() (vfs.File, error) { return s.FS.OpenDir(name) })
}

func (s *scarce) List(name string) ([]string, error) {
	if s.on.Load() {
		s.refused.Add(1)
		return nil, syscall.ENFILE
	}
	return s.FS.List(name)
}

// hung is a disk whose syncs hang while it is shut, and that counts what is written.
type hung struct {
	mu      sync.RWMutex
	shut    atomic.Bool
	waiting atomic.Int64
	written atomic.Int64
}

// MaybeError is asked before every operation.
func (d *hung) MaybeError(op vfs.Op) error {
	switch op {
	case vfs.OpSync:
		if d.shut.Load() {
			d.waiting.Add(1)
		}
		d.mu.RLock()
		defer d.mu.RUnlock()
	case vfs.OpWrite:
		d.written.Add(1)
	}
	return nil
}

func TestAnAbandonedEngineWritesNoMoreWhenItsDiskComesBack(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := &hung{}
	r := newBench().open(t, 1, vfs.Wrap(vfs.NewMem(), disk), StartBootstrap)
	r.propose(t, birth())
	disk.mu.Lock()
	disk.shut.Store(true)
	if _, err := r.Propose(context.Background(), fsm.Encode(fsm.Level{Level: 1})); !errors.Is(err, ErrUnknown) {
		t.Errorf("propose on a hung disk: %v", err)
	}
	began := time.Now()
	if err := r.Group.Close(); !errors.Is(err, ErrAbandoned) {
		t.Errorf("close on a hung disk: %v", err)
	}
	if took := time.Since(began); took > closeWithin+time.Second {
		t.Errorf("close on a hung disk took %v", took)
	}
	r.endpoint.Close()
	before := disk.written.Load()
	disk.mu.Unlock()
	for range 100 { // one that opened the directory meanwhile must be alone
		pause()
	}
	if n := disk.written.Load() - before; n > 0 {
		t.Errorf("the abandoned engine wrote %d times more", n)
	}
}
