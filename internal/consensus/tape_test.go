package consensus

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/lni/vfs"
)

// reel is what several disks have written and synced, in order: enough to make each of them as it
// was at any moment.
type reel struct {
	mu    sync.Mutex
	steps []step
	note  uint64 // noted with each step
}

// step is one call that changed a disk. again makes it on another one.
type step struct {
	disk  int
	note  uint64
	again func(*replay) error
	data  []byte // of a write to file, at offset
	file  int
	at    int64
}

// say sets what is noted with the steps from here on.
func (r *reel) say(note uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note = max(r.note, note)
}

func (r *reel) length() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

// tape is a disk in memory that records on a reel.
type tape struct {
	vfs.FS
	reel *reel
	disk int
}

// do makes a call that changes the disk, and records it if it succeeds.
func (t *tape) do(call func() error, s step) error {
	t.reel.mu.Lock()
	defer t.reel.mu.Unlock()
	if err := call(); err != nil {
		return err
	}
	s.disk, s.note = t.disk, t.reel.note
	t.reel.steps = append(t.reel.steps, s)
	return nil
}

// open is do for a call that opens a file to write. The file's number is that of its step.
func (t *tape) open(call func(vfs.FS) (vfs.File, error)) (vfs.File, error) {
	f := &taped{tape: t}
	err := t.do(func() (err error) {
		f.number = len(t.reel.steps)
		f.File, err = call(t.FS)
		return err
	}, step{again: func(r *replay) error {
		file, err := call(r.fs)
		r.files[f.number] = file
		return err
	}})
	return f, err
}

func (t *tape) Create(name string) (vfs.File, error) {
	return t.open(func(fs vfs.FS) (vfs.File, error) { return fs.Create(name) })
}

func (t *tape) OpenForAppend(name string) (vfs.File, error) {
	return t.open(func(fs vfs.FS) (vfs.File, error) { return fs.OpenForAppend(name) })
}

func (t *tape) ReuseForWrite(from, to string) (vfs.File, error) {
	return t.open(func(fs vfs.FS) (vfs.File, error) { return fs.ReuseForWrite(from, to) })
}

func (t *tape) OpenDir(name string) (vfs.File, error) {
	return t.open(func(fs vfs.FS) (vfs.File, error) { return fs.OpenDir(name) })
}

func (t *tape) Lock(name string) (io.Closer, error) { return t.Create(name) }

func (t *tape) both(call func(vfs.FS) error) error {
	return t.do(func() error { return call(t.FS) }, step{again: func(r *replay) error { return call(r.fs) }})
}

func (t *tape) Rename(from, to string) error {
	return t.both(func(fs vfs.FS) error { return fs.Rename(from, to) })
}

func (t *tape) Link(from, to string) error {
	return t.both(func(fs vfs.FS) error { return fs.Link(from, to) })
}

func (t *tape) Remove(name string) error {
	return t.both(func(fs vfs.FS) error { return fs.Remove(name) })
}

func (t *tape) RemoveAll(name string) error {
	return t.both(func(fs vfs.FS) error { return fs.RemoveAll(name) })
}

func (t *tape) MkdirAll(name string, mode os.FileMode) error {
	return t.both(func(fs vfs.FS) error { return fs.MkdirAll(name, mode) })
}

// taped is an open file of a tape.
type taped struct {
	vfs.File
	tape   *tape
	number int
}

func (f *taped) Write(b []byte) (n int, err error) {
	data := append([]byte(nil), b...)
	err = f.tape.do(func() (err error) { n, err = f.File.Write(b); return err }, step{
		file: f.number, data: data, at: -1,
		again: func(r *replay) error { _, err := r.files[f.number].Write(data); return err },
	})
	return n, err
}

func (f *taped) WriteAt(b []byte, at int64) (n int, err error) {
	data := append([]byte(nil), b...)
	err = f.tape.do(func() (err error) { n, err = f.File.WriteAt(b, at); return err }, step{
		file: f.number, data: data, at: at,
		again: func(r *replay) error { _, err := r.files[f.number].WriteAt(data, at); return err },
	})
	return n, err
}

func (f *taped) Sync() error {
	return f.tape.do(f.File.Sync, step{again: func(r *replay) error { return r.files[f.number].Sync() }})
}

func (f *taped) Close() error {
	return f.tape.do(f.File.Close, step{again: func(r *replay) error {
		file := r.files[f.number]
		delete(r.files, f.number)
		return file.Close()
	}})
}

// replay is a disk being made again from a reel.
type replay struct {
	fs    *vfs.MemFS
	files map[int]vfs.File // open to write, by number
}

// cut returns a disk as it is when the power was cut after so many steps. Nothing that was not
// synced is there; with random, some of it is: some files and directories as they were, and a piece
// of the next write.
func (r *reel) cut(t *testing.T, disk, steps int, random *rand.Rand) *vfs.MemFS {
	t.Helper()
	again := &replay{fs: vfs.NewStrictMem(), files: make(map[int]vfs.File)}
	must := func(err error) {
		if err != nil {
			t.Fatalf("making the disk again: %v", err)
		}
	}
	for _, s := range r.steps[:steps] {
		if s.disk == disk {
			must(s.again(again))
		}
	}
	if random != nil {
		if next := r.steps[min(steps, len(r.steps)-1)]; next.disk == disk && len(next.data) > 0 {
			file, piece := again.files[next.file], next.data[:random.IntN(len(next.data)+1)]
			if next.at < 0 {
				_, err := file.Write(piece)
				must(err)
			} else {
				_, err := file.WriteAt(piece, next.at)
				must(err)
			}
		}
		for _, f := range again.files {
			if random.IntN(2) == 0 {
				must(f.Sync())
			}
		}
		must(syncSome(again.fs, "/", random))
	}
	for _, f := range again.files {
		must(f.Close()) // what is open cannot be removed
	}
	again.fs.ResetToSyncedState()
	return again.fs
}

// syncSome syncs half of the directories below dir.
func syncSome(fs *vfs.MemFS, dir string, random *rand.Rand) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err == nil && info.IsDir() {
			err = syncSome(fs, path, random)
		}
		if err != nil {
			return err
		}
	}
	if random.IntN(2) == 0 {
		return nil
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
