package processes_test

import (
	"os"
	"sync"
	"testing"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
	"github.com/holdfast-go/holdfast/internal/simenv"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// brittle is a disk in memory whose calls a test can make fail.
type brittle struct {
	vfs.FS
	mu    sync.Mutex
	calls int // that change something on the disk, so far
	judge func(n int, call, name string) error
}

func newBrittle() *brittle { return &brittle{FS: vfs.NewMem()} }

// rule makes judge decide about every further call that changes something: its number from 1, what
// and on which file. nil mends the disk.
func (b *brittle) rule(judge func(n int, call, name string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judge = judge
}

func (b *brittle) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func (b *brittle) ask(call, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.judge == nil {
		return nil
	}
	return b.judge(b.calls, call, name)
}

func (b *brittle) open(call, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := b.ask(call, name); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &brittleFile{f, b, name}, nil
}

func (b *brittle) Create(name string) (vfs.File, error) {
	return b.open("create", name, func() (vfs.File, error) { return b.FS.Create(name) })
}

func (b *brittle) OpenForAppend(name string) (vfs.File, error) {
	return b.open("append", name, func() (vfs.File, error) { return b.FS.OpenForAppend(name) })
}

func (b *brittle) ReuseForWrite(from, to string) (vfs.File, error) {
	return b.open("reuse", to, func() (vfs.File, error) { return b.FS.ReuseForWrite(from, to) })
}

func (b *brittle) OpenDir(name string) (vfs.File, error) {
	f, err := b.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &brittleFile{f, b, name}, nil
}

func (b *brittle) Rename(from, to string) error {
	if err := b.ask("rename", to); err != nil {
		return err
	}
	return b.FS.Rename(from, to)
}

func (b *brittle) Link(from, to string) error {
	if err := b.ask("link", to); err != nil {
		return err
	}
	return b.FS.Link(from, to)
}

func (b *brittle) MkdirAll(name string, mode os.FileMode) error {
	if err := b.ask("mkdir", name); err != nil {
		return err
	}
	return b.FS.MkdirAll(name, mode)
}

type brittleFile struct {
	vfs.File
	disk *brittle
	name string
}

func (f *brittleFile) Write(p []byte) (int, error) {
	if err := f.disk.ask("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *brittleFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.disk.ask("write", f.name); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f *brittleFile) Sync() error {
	if err := f.disk.ask("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// openOn opens a node whose data is on a disk of the test's.
func openOn(t testing.TB, disk vfs.FS, cfg holdfast.Config) (*holdfast.Cluster, error) {
	t.Helper()
	if cfg.Cluster == "" {
		cfg.Cluster = "holdfast"
	}
	cfg.MaxTTL = holdfast.TTLMax
	if cfg.Logger == nil {
		cfg.Logger = testkit.Quiet()
	}
	dir, err := datadir.OpenFS(disk, "/data", cfg.Cluster, fsm.Place{Boot: "test"})
	if err != nil {
		return nil, err
	}
	return holdfast.Open(simenv.With(t.Context(), simenv.Env{Dir: dir}), cfg)
}
