package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/backup"
	"github.com/holdfast-go/holdfast/internal/consensus"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

const path = "/data"

// copied is a backup of a group with a value, whose last token is above all clocks.
func copied(t *testing.T) []byte {
	t.Helper()
	m, id := fsm.New(), fsm.SessionID{Node: fsm.Node{'a'}, Incarnation: 1, Number: 1}
	for i, c := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}, Counter: highest - 1, Bootstrap: 1, Voters: 1}, fsm.Serve{},
		fsm.Hello{Node: id.Node, Incarnation: 1, Name: "alpha"},
		fsm.Acquire{Session: id, TTL: time.Minute, Request: 1, Name: "x", HasValue: true, Value: []byte("v")},
	} {
		if o, _ := m.Apply(uint64(i+1), fsm.ProcessOf(c), fsm.Encode(c)); o.Code != fsm.CodeOK && o.Code != fsm.CodeGranted {
			t.Fatalf("%T: %v", c, o.Code)
		}
	}
	var b bytes.Buffer
	if err := backup.Write(&b, backup.Header{Cluster: "fleet", Written: time.Now()}, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const highest = uint64(1) << 52

// recovered recovers the directory at path, or puts a backup into it, if from has one. more are further
// directories of the group.
func recovered(fsys vfs.FS, from []byte, more ...string) (Report, error) {
	cfg := Config{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, name := range append([]string{path}, more...) {
		dir, err := datadir.OfflineFS(fsys, name)
		if err != nil {
			return Report{}, err
		}
		cfg.Dirs = append(cfg.Dirs, dir)
	}
	if from != nil {
		cfg.From = bytes.NewReader(from)
	}
	return Run(context.Background(), cfg)
}

// disk is a synced copy of a disk.
func disk(t *testing.T, of *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewStrictMem()
	if err := fsys.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if of != nil {
		if _, err := vfs.Clone(of, fsys, path, path); err != nil {
			t.Fatal(err)
		}
	}
	synced(fsys, "/")
	return fsys
}

func synced(fsys vfs.FS, dir string) {
	names, _ := fsys.List(dir)
	for _, name := range names {
		name = fsys.PathJoin(dir, name)
		if info, err := fsys.Stat(name); err == nil && info.IsDir() {
			synced(fsys, name)
		} else if f, err := fsys.Open(name); err == nil {
			_ = errors.Join(f.Sync(), f.Close())
		}
	}
	if f, err := fsys.OpenDir(dir); err == nil {
		_ = errors.Join(f.Sync(), f.Close())
	}
}

// dying lets so many writes and syncs through. Then the process is dead: each further one fails.
type dying struct{ left, done atomic.Int64 }

func (d *dying) MaybeError(op vfs.Op) error {
	if op == vfs.OpRead {
		return nil
	}
	d.done.Add(1)
	if d.left.Add(-1) < 0 {
		return vfs.ErrInjected
	}
	return nil
}

// full has room for so many writes. What needs no room works on.
type full struct {
	vfs.FS
	left *atomic.Int64
}

func (f full) room() error {
	if f.left.Add(-1) < 0 {
		return syscall.ENOSPC
	}
	return nil
}

func (f full) Create(name string) (vfs.File, error) {
	if err := f.room(); err != nil {
		return nil, err
	}
	under, err := f.FS.Create(name)
	return fullFile{under, f}, err
}

func (f full) MkdirAll(name string, mode os.FileMode) error {
	return errors.Join(f.room(), f.FS.MkdirAll(name, mode))
}

type fullFile struct {
	vfs.File
	full
}

func (f fullFile) Write(b []byte) (int, error) {
	if err := f.room(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.room(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func names(fsys vfs.FS) []string {
	list, _ := fsys.List(path)
	slices.Sort(list)
	return list
}

// each calls f for steps 0, 1, … until it returns false, some at a time: an engine whose disk failed
// is waited for, which costs no processor. With more at a time an engine that does work cannot stop
// within its five seconds under the race detector.
func each(f func(step int64) bool) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for f(next.Add(1) - 1) {
			}
		})
	}
	all.Wait()
}

// check opens the directory as a node does, and looks at the state in it.
func check(fsys vfs.FS, want Report) error {
	dir, err := datadir.OpenFS(fsys, path, "fleet", fsm.Place{})
	if err != nil {
		return err
	}
	id := dir.Identity()
	read, err := consensus.Read(context.Background(), consensus.Config{
		Node: id.NodeID, Incarnation: (id.Incarnation + 1) << consensus.RunBits, Cluster: id.ClusterID, Dir: dir.RaftDir(), FS: fsys,
	})
	if err != nil {
		return err
	}
	lock, _ := read.State.Lock("x")
	switch info := read.State.Info(); {
	case id.ClusterID != want.Group || id.NodeID != want.Node || fsm.Node(info.Cluster).String() != want.Group:
		return fmt.Errorf("node %s of group %s, state of %x", id.NodeID, id.ClusterID, info.Cluster)
	case info.Counter < highest || info.Counter < want.Counter || string(lock.Value) != "v":
		return fmt.Errorf("counter %d, value %q", info.Counter, lock.Value)
	}
	return nil
}

// sources are what a recovery begins with: a disk with a directory, and an empty one and a backup.
func sources(t *testing.T) map[string]func() (*vfs.MemFS, []byte) {
	from := copied(t)
	former := disk(t, nil)
	if _, err := recovered(former, from); err != nil {
		t.Fatal(err)
	}
	return map[string]func() (*vfs.MemFS, []byte){
		"a directory": func() (*vfs.MemFS, []byte) { return disk(t, former), nil },
		"a backup":    func() (*vfs.MemFS, []byte) { return disk(t, nil), from },
	}
}

// beside is a copy of the disk with a copy of its directory, as of another node of the group.
func beside(t *testing.T, of *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	fsys := disk(t, of)
	if _, err := vfs.Clone(of, fsys, path, other); err != nil {
		t.Fatal(err)
	}
	synced(fsys, "/")
	return fsys
}

const other = "/other"

// Of several directories one is recovered, and the process dies at a write of that. Run again, it said that the
// directories are of two groups, and that one is to be recovered at a time: what an operator then tried made a
// second group of the others. It recovers the same directory again, and reports of the same group.
func TestARecoveryFromSeveralDirectoriesIsRunAgainAfterItsProcessDiedAtAnyWrite(t *testing.T) {
	t.Parallel()
	former := disk(t, nil)
	first, err := recovered(former, copied(t))
	if err != nil {
		t.Fatal(err)
	}
	var ran, late atomic.Int64
	each(func(step int64) bool {
		fsys := beside(t, former)
		d := &dying{}
		d.left.Store(step / 2)
		_, err := recovered(vfs.Wrap(fsys, d), nil, other)
		if step%2 == 0 {
			fsys.SetIgnoreSyncs(true)
			fsys.ResetToSyncedState()
			fsys.SetIgnoreSyncs(false)
		}
		if dir, err := datadir.OfflineFS(fsys, path); err != nil {
			t.Errorf("step %d: %v", step, err)
		} else if id, _ := dir.Identity(); id.ClusterID != first.Group {
			late.Add(1)
		}
		ran.Add(1)
		done, again := recovered(fsys, nil, other)
		if again == nil {
			again = check(fsys, done)
		}
		if again != nil || done.Former.ClusterID != first.Group || done.Dir.Path() != path || !done.Complete {
			t.Errorf("step %d: run again: %+v: %v", step, done, again)
		}
		return err != nil
	})
	t.Logf("died at %d writes, at %d after it had happened", ran.Load(), late.Load())
	if ran.Load() < 100 || late.Load() < 10 {
		t.Errorf("it died at %d writes alone, at %d after it had happened: this test has shown little", ran.Load(), late.Load())
	}
}

// The process dies at a write of the whole recovery, with a power cut then or without. Then it is run
// again, with the same arguments: a second run of a restore that had died late was told that the directory,
// which the operator had left empty, is of a node.
func TestARecoveryIsRunAgainAfterItsProcessDiedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for name, source := range sources(t) {
		var ran atomic.Int64
		each(func(step int64) bool {
			fsys, from := source()
			d := &dying{}
			d.left.Store(step / 2)
			done, err := recovered(vfs.Wrap(fsys, d), from)
			if step%2 == 0 {
				fsys.SetIgnoreSyncs(true)
				fsys.ResetToSyncedState()
				fsys.SetIgnoreSyncs(false)
			}
			if err == nil {
				if err := check(fsys, done); err != nil {
					t.Errorf("%s, step %d: it had happened: %v", name, step, err)
				}
				return false
			}
			ran.Add(1)
			if done, err = recovered(fsys, from); err == nil {
				err = check(fsys, done)
			}
			if err != nil {
				t.Errorf("%s, step %d: run again: %v", name, step, err)
			}
			return true
		})
		t.Logf("%s: died at %d writes", name, ran.Load())
		if ran.Load() < 100 {
			t.Errorf("%s: it died at %d writes alone: this test has shown little", name, ran.Load())
		}
	}
}

// The directory of a restore was made without a sync of the one that it is in: a power cut after the report lost
// the whole group, though each file in it was on the disk.
func TestARestoreIntoADirectoryThatItMakesSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewStrictMem()
	dir, err := datadir.CreateOfflineFS(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	done, err := Run(t.Context(), Config{
		Dirs: []*datadir.Offline{dir}, From: bytes.NewReader(copied(t)), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetIgnoreSyncs(true)
	fsys.ResetToSyncedState()
	fsys.SetIgnoreSyncs(false)
	if err := check(fsys, done); err != nil {
		t.Error(err)
	}
}

// The disk is full at a write, and stays so. The error says what to do, nothing is left of the attempt,
// and with room the recovery succeeds.
func TestARecoveryOnAFullDiskChangesNothingAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, source := range sources(t) {
		var ran atomic.Int64
		each(func(step int64) bool {
			fsys, from := source()
			before := names(fsys)
			clean, err := datadir.OfflineFS(fsys, path)
			if err != nil {
				t.Error(err)
				return false
			}
			was, _ := clean.Identity()
			var left atomic.Int64
			left.Store(step)
			_, err = recovered(full{fsys, &left}, from)
			if err == nil {
				return false
			}
			ran.Add(1)
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "run the recovery again") || !strings.Contains(err.Error(), "has room") {
				t.Errorf("%s, step %d: %v", name, step, err)
			}
			after := names(fsys)
			dir, err := datadir.OfflineFS(fsys, path)
			if err != nil {
				t.Errorf("%s, step %d: %v", name, step, err)
				return true
			}
			if id, _ := dir.Identity(); id.ClusterID == was.ClusterID && !slices.Equal(before, after) {
				t.Errorf("%s, step %d: there were %q, and are %q", name, step, before, after)
			}
			done, err := recovered(fsys, from)
			if err == nil {
				err = check(fsys, done)
			}
			if err != nil {
				t.Errorf("%s, step %d: with room: %v", name, step, err)
			}
			return true
		})
		t.Logf("%s: full at %d writes", name, ran.Load())
		if ran.Load() < 40 {
			t.Errorf("%s: full at %d writes alone: this test has shown little", name, ran.Load())
		}
	}
}
