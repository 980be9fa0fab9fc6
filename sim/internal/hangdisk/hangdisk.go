// Package hangdisk is a file system whose writes and syncs wait while its disk hangs, as those of a
// volume do whose storage stands still.
package hangdisk

import (
	"sync"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/datadir"
)

// Disk is a file system that hangs when it is told to. It is safe for concurrent use.
type Disk struct {
	vfs.FS
	mu   sync.Mutex
	hung chan struct{} // not nil: closed when the disk goes on
}

// New returns a disk with the files of fs.
func New(fs vfs.FS) *Disk { return &Disk{FS: fs} }

// Dir is a data directory on a disk that hangs when it is told to.
type Dir struct {
	datadir.Dir
	Disk *Disk
}

// Wrap puts a data directory on such a disk.
func Wrap(dir datadir.Dir) *Dir { return &Dir{dir, New(dir.FS())} }

// FS is the disk.
func (d *Dir) FS() vfs.FS { return d.Disk }

// Hang makes writes and syncs wait until Resume.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung == nil {
		d.hung = make(chan struct{})
	}
}

// Resume ends Hang.
func (d *Disk) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung != nil {
		close(d.hung)
		d.hung = nil
	}
}

func (d *Disk) wait() {
	d.mu.Lock()
	hung := d.hung
	d.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

func (d *Disk) open(open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	return file{f, d}, nil
}

// Create makes or empties a file.
func (d *Disk) Create(name string) (vfs.File, error) {
	d.wait()
	return d.open(func() (vfs.File, error) { return d.FS.Create(name) })
}

// OpenForAppend opens a file to write at its end.
func (d *Disk) OpenForAppend(name string) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.FS.OpenForAppend(name) })
}

// ReuseForWrite renames a file and opens it to write.
func (d *Disk) ReuseForWrite(from, to string) (vfs.File, error) {
	d.wait()
	return d.open(func() (vfs.File, error) { return d.FS.ReuseForWrite(from, to) })
}

// OpenDir opens a directory to sync it.
func (d *Disk) OpenDir(name string) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

type file struct {
	vfs.File
	disk *Disk
}

func (f file) Write(b []byte) (int, error) {
	f.disk.wait()
	return f.File.Write(b)
}

func (f file) WriteAt(b []byte, at int64) (int, error) {
	f.disk.wait()
	return f.File.WriteAt(b, at)
}

func (f file) Sync() error {
	f.disk.wait()
	return f.File.Sync()
}
