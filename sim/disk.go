package sim

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/datadir"
)

// disk is the disk of one node: a file system in memory that forgets at a power cut what was not
// synced, and that can be slow, stuck or full.
type disk struct {
	vfs.FS   // mem, for what is only read
	mem      *vfs.MemFS
	host     string
	serial   uint64 // of all disks of the simulation
	fleeting bool   // it is memory of the process, and ends with that
	prompt   bool   // never slow or stuck

	// writing is held for reading by each write, and for writing while the disk's state is taken as
	// a whole. Nobody waits for time while holding it: that would stop the bubble's clock.
	writing sync.RWMutex

	mu    sync.Mutex
	dir   datadir.Dir // that is open on it, nil if none is
	boots uint64      // of its machine: a power cut is the end of one
	delay time.Duration
	stuck chan struct{} // not nil: syncs of the log wait until it is closed
	why   stuckBy       // what it is stuck by
	full  bool
}

// newDisk makes a disk for a node. The engine compacts its log while it holds a mutex that its
// writers want, and virtual time stands still as long as anybody waits for one: the disk is prompt
// where there are snapshots.
func newDisk(n *Node) *disk {
	mem := vfs.NewStrictMem()
	host, _ := n.s.addresses(n)
	return &disk{
		FS: mem, mem: mem, host: host, serial: n.s.disks.Add(1),
		fleeting: n.s.opts.Diskless, prompt: n.s.opts.SnapshotEvery > 0,
	}
}

func (d *disk) openDir(cluster string) (datadir.Dir, error) {
	dir, err := datadir.OpenFS(d, "/data", cluster, d.place())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir = dir
	return dir, err
}

// place is where a process runs that has opened the disk now.
func (d *disk) place() fsm.Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fleeting {
		return fsm.Place{}
	}
	return fsm.Place{Boot: d.host, Device: d.boots, File: d.serial}
}

func (d *disk) slow(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = delay
}

// stuckBy is a set of what may make a disk stick.
type stuckBy uint8

const (
	stuckByPause stuckBy = 1 << iota
	stuckByHang
)

func (d *disk) stick(why stuckBy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why |= why
	if d.stuck == nil {
		d.stuck = make(chan struct{})
	}
}

func (d *disk) unstick(why stuckBy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why &^= why
	if d.why == 0 && d.stuck != nil {
		close(d.stuck)
		d.stuck = nil
	}
}

func (d *disk) fill(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// lose drops what was not synced from now on until the returned function is called, which also
// takes the disk back to this moment: a power cut. With written, all that was written counts as
// synced: the end of a process on a machine that goes on.
func (d *disk) lose(written bool) (restore func()) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if written {
		syncAll(d.mem, "/")
	} else {
		d.mu.Lock()
		d.boots++
		d.mu.Unlock()
	}
	d.mem.SetIgnoreSyncs(true)
	return func() {
		d.mem.ResetToSyncedState()
		d.mem.SetIgnoreSyncs(false)
	}
}

func (d *disk) copyTo(to *disk) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	_, err := vfs.Clone(d.mem, to.mem, "/data", "/data")
	syncAll(to.mem, "/")
	return err
}

// syncAll syncs everything below dir. A memory file system does not fail at it.
func syncAll(fs vfs.FS, dir string) {
	names, _ := fs.List(dir)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if info, err := fs.Stat(path); err == nil && info.IsDir() {
			syncAll(fs, path)
		} else if f, err := fs.Open(path); err == nil {
			_ = f.Sync()
			_ = f.Close()
		}
	}
	if f, err := fs.OpenDir(dir); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

func (d *disk) write(op func() error) error {
	d.mu.Lock()
	full := d.full
	d.mu.Unlock()
	if full {
		return syscall.ENOSPC
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	return op()
}

// wait takes the time that a sync of the log takes. It takes none as long as a new replica is being
// started: the engine waits for that under a mutex.
func (d *disk) wait() {
	d.mu.Lock()
	delay, stuck, dir := d.delay, d.stuck, d.dir
	d.mu.Unlock()
	if d.prompt || dir == nil || !dir.Identity().Started {
		return
	}
	if delay > 0 {
		time.Sleep(delay)
	}
	if stuck != nil {
		<-stuck
	}
}

func (d *disk) open(name string, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, log: strings.HasSuffix(name, ".log")}, nil
}

func (d *disk) openToWrite(name string, open func() (vfs.File, error)) (file vfs.File, err error) {
	err = d.write(func() error {
		file, err = d.open(name, open)
		return err
	})
	return file, err
}

// Create makes or empties a file.
func (d *disk) Create(name string) (vfs.File, error) {
	return d.openToWrite(name, func() (vfs.File, error) { return d.mem.Create(name) })
}

// Open opens a file to read it.
func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(name, func() (vfs.File, error) { return d.mem.Open(name, opts...) })
}

// OpenDir opens a directory to sync it.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	return d.open(name, func() (vfs.File, error) { return d.mem.OpenDir(name) })
}

// OpenForAppend opens a file to write at its end.
func (d *disk) OpenForAppend(name string) (vfs.File, error) {
	return d.openToWrite(name, func() (vfs.File, error) { return d.mem.OpenForAppend(name) })
}

// ReuseForWrite renames a file and opens it to write.
func (d *disk) ReuseForWrite(from, to string) (vfs.File, error) {
	return d.openToWrite(to, func() (vfs.File, error) { return d.mem.ReuseForWrite(from, to) })
}

// Link makes a second name.
func (d *disk) Link(from, to string) error {
	return d.write(func() error { return d.mem.Link(from, to) })
}

// Rename renames.
func (d *disk) Rename(from, to string) error {
	return d.write(func() error { return d.mem.Rename(from, to) })
}

// Remove removes one name. It needs no room.
func (d *disk) Remove(name string) error {
	d.writing.RLock()
	defer d.writing.RUnlock()
	return d.mem.Remove(name)
}

// RemoveAll removes a name and what is below it. It needs no room.
func (d *disk) RemoveAll(name string) error {
	d.writing.RLock()
	defer d.writing.RUnlock()
	return d.mem.RemoveAll(name)
}

// MkdirAll makes directories.
func (d *disk) MkdirAll(name string, mode os.FileMode) error {
	return d.write(func() error { return d.mem.MkdirAll(name, mode) })
}

type diskFile struct {
	vfs.File
	disk *disk
	log  bool // a file whose syncs a slow disk delays. No other: their callers may hold a mutex meanwhile
}

func (f *diskFile) Write(b []byte) (n int, err error) {
	err = f.disk.write(func() error {
		n, err = f.File.Write(b)
		return err
	})
	return n, err
}

func (f *diskFile) WriteAt(b []byte, offset int64) (n int, err error) {
	err = f.disk.write(func() error {
		n, err = f.File.WriteAt(b, offset)
		return err
	})
	return n, err
}

func (f *diskFile) Sync() error {
	if f.log {
		f.disk.wait()
	}
	f.disk.writing.RLock()
	defer f.disk.writing.RUnlock()
	return f.File.Sync()
}
