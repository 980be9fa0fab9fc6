package consensus

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lni/vfs"
)

// disk is the file system as the engine sees it. The engine ends the process when a write fails. Here a
// write that fails, of whatever kind, fails the group and parks the goroutine that made it: it never hears
// of the error, so it can neither panic nor acknowledge what is not on the disk. Once the group has failed,
// for whatever reason, nothing is written any more.
//
// disk also hides the machine's name, under which the engine keeps its data (see stamp.go).
type disk struct {
	vfs.FS
	fail   func(error)
	failed <-chan struct{}
	from   string // directory that the engine names after the machine
	to     string // what it is called on the disk
}

// hostDir is what the directory of the machine is called instead.
const hostDir = "replica"

func newDisk(under vfs.FS, dir, hostname string, fail func(error), failed <-chan struct{}) *disk {
	return &disk{
		FS: under, fail: fail, failed: failed,
		from: filepath.Join(dir, hostname), to: filepath.Join(dir, hostDir),
	}
}

// path is a name as it is on the disk.
func (d *disk) path(name string) string {
	if rest, ok := strings.CutPrefix(name, d.from); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return d.to + rest
	}
	return name
}

// alive parks the caller when the group has failed.
func (d *disk) alive() {
	select {
	case <-d.failed:
		park()
	default:
	}
}

// must fails the group and parks the caller when a write has failed.
func (d *disk) must(what, name string, err error) {
	if err == nil {
		return
	}
	d.fail(fmt.Errorf("disk: %s %s: %w", what, name, err))
	park()
}

func (d *disk) Create(name string) (vfs.File, error) {
	name = d.path(name)
	d.alive()
	f, err := d.FS.Create(name)
	d.must("create", name, err)
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	name = d.path(name)
	f, err := d.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	name = d.path(name)
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) OpenForAppend(name string) (vfs.File, error) {
	name = d.path(name)
	d.alive()
	f, err := d.FS.OpenForAppend(name)
	d.must("open", name, err)
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) ReuseForWrite(from, to string) (vfs.File, error) {
	from, to = d.path(from), d.path(to)
	d.alive()
	f, err := d.FS.ReuseForWrite(from, to)
	d.must("reuse", from, err)
	return &file{File: f, disk: d, name: to}, nil
}

func (d *disk) Link(from, to string) error {
	from, to = d.path(from), d.path(to)
	d.alive()
	d.must("link", from, d.FS.Link(from, to))
	return nil
}

func (d *disk) Rename(from, to string) error {
	from, to = d.path(from), d.path(to)
	d.alive()
	d.must("rename", from, d.FS.Rename(from, to))
	return nil
}

// Remove and RemoveAll pass their errors on: what could not be removed harms nothing.
func (d *disk) Remove(name string) error {
	d.alive()
	return d.FS.Remove(d.path(name))
}

func (d *disk) RemoveAll(name string) error {
	d.alive()
	return d.FS.RemoveAll(d.path(name))
}

func (d *disk) MkdirAll(name string, mode os.FileMode) error {
	name = d.path(name)
	d.alive()
	d.must("make directory", name, d.FS.MkdirAll(name, mode))
	return nil
}

func (d *disk) Lock(name string) (io.Closer, error) { return d.FS.Lock(d.path(name)) }

func (d *disk) List(name string) ([]string, error) { return d.FS.List(d.path(name)) }

func (d *disk) Stat(name string) (os.FileInfo, error) { return d.FS.Stat(d.path(name)) }

// GetDiskUsage answers plenty where the file system cannot say: a memory file system.
func (d *disk) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	usage, err := d.FS.GetDiskUsage(d.path(name))
	if err != nil {
		const plenty = 1 << 40
		return vfs.DiskUsage{AvailBytes: plenty, TotalBytes: plenty}, nil
	}
	return usage, nil
}
