package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/consensus/engine"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// disk is the file system as the engine sees it. The engine ends the process when the disk fails.
// Here a failed call, of any kind, fails the group and parks its goroutine: the engine never
// receives the error, so it can neither panic nor acknowledge what is not on the disk. It receives
// only the error that a file does not exist. Once the group has failed, no call writes any more.
//
// A lack of file descriptors is no failure of the disk: some are set aside for it, and when those
// are used up, the engine waits.
//
// disk also hides the machine's name, under which the engine keeps its data (see stamp.go).
type disk struct {
	vfs.FS
	fail   func(error)
	failed <-chan struct{}
	spares *fdreserve.Set
	from   string // directory that the engine names after the machine
	to     string // its name on the disk
}

var (
	// ErrDisk is wrapped in the cause when a call of the disk has failed.
	ErrDisk = errors.New("disk")
	// ErrForeign and ErrDamaged are errors about a directory.
	ErrForeign, ErrDamaged = report.ErrForeign, report.ErrDamaged
)

// errParked never reaches the engine: the goroutine that would return it is parked.
var errParked = errors.New("holdfast: parked")

// hostDir replaces the machine's name.
const hostDir = "replica"

// NewDisk is a directory on a file system as the engine sees it. A failure calls fail, which closes
// failed.
func NewDisk(under vfs.FS, dir, hostname string, fail func(error), failed <-chan struct{}, spares *fdreserve.Set) vfs.FS {
	return &disk{
		FS: under, fail: fail, failed: failed, spares: spares,
		from: filepath.Join(dir, hostname), to: filepath.Join(dir, hostDir),
	}
}

// path is the name of a file on the disk.
func (d *disk) path(name string) string {
	if rest, ok := strings.CutPrefix(name, d.from); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return d.to + rest
	}
	return name
}

// present is the path of a snapshot's file now. The engine sends the file from the path in its record,
// which names the directory, and the machine, of the time when the snapshot was written.
func present(dir, recorded string) (path string) {
	const below = 5 // deployment, part, replica, snapshot, file
	for range below {
		recorded, path = filepath.Dir(recorded), filepath.Join(filepath.Base(recorded), path)
	}
	return filepath.Join(dir, hostDir, path)
}

// alive parks the caller if the group has failed.
func (d *disk) alive() error {
	select {
	case <-d.failed:
		return hold(errParked)
	default:
		return nil
	}
}

// must fails the group and parks the caller if a call has failed.
func (d *disk) must(what, name string, err error) error {
	if err == nil {
		return nil
	}
	d.fail(fmt.Errorf("%w: %s %s: %w", ErrDisk, what, name, err))
	return hold(err)
}

// hold parks the caller, unless it holds the lock that all engines of the process share: then it
// returns the error, the engine releases the lock, and engineLogger.Panicf parks the caller.
func hold(err error) error {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "SSEnv).FinalizeSnapshot") {
			return err
		}
		if !more {
			engine.Park()
		}
	}
}

// may is must for calls whose file may not exist.
func (d *disk) may(what, name string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.must(what, name, err)
}

const (
	descriptorsWithin = time.Minute // how long the engine waits for a file descriptor
	descriptorsPause  = 50 * time.Millisecond
)

// patiently repeats a call that needs a file descriptor until there is one. back returns a spare
// one.
func (d *disk) patiently(call func() error) (back func()) {
	for began := time.Now(); ; {
		back, err := d.spares.Do(call)
		if !fdreserve.Lacking(err) || time.Since(began) > descriptorsWithin {
			return back
		}
		select {
		case <-d.failed:
			return nil
		case <-time.After(descriptorsPause):
		}
	}
}

// briefly is patiently for a call that needs a descriptor only while it lasts.
func (d *disk) briefly(call func() error) {
	if back := d.patiently(call); back != nil {
		back()
	}
}

// open opens a file.
func (d *disk) open(name string, open func() (vfs.File, error)) (f *file, err error) {
	var under vfs.File
	back := d.patiently(func() error {
		under, err = open()
		return err
	})
	return &file{File: under, disk: d, name: name, back: back}, err
}

// openToWrite opens a file that must exist afterwards.
func (d *disk) openToWrite(what, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	f, err := d.open(name, open)
	if d.must(what, name, err) != nil {
		return nil, err
	}
	return f, nil
}

// openToRead opens a file that may not exist. Only a table of the log store must: without it, the
// store ends the process by itself.
func (d *disk) openToRead(name string, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := d.open(name, open)
	if strings.HasSuffix(name, ".sst") {
		err = d.must("open", name, err)
	}
	if d.may("open", name, err) != nil {
		return nil, err
	}
	return f, nil
}

func (d *disk) Create(name string) (vfs.File, error) {
	name = d.path(name)
	return d.openToWrite("create", name, func() (vfs.File, error) { return d.FS.Create(name) })
}

func (d *disk) OpenForAppend(name string) (vfs.File, error) {
	name = d.path(name)
	return d.openToWrite("open", name, func() (vfs.File, error) { return d.FS.OpenForAppend(name) })
}

// ReuseForWrite renames and opens a file. A second attempt, after no descriptor was left, only
// opens it: its content stays.
func (d *disk) ReuseForWrite(from, to string) (vfs.File, error) {
	from, to = d.path(from), d.path(to)
	return d.openToWrite("reuse", to, func() (vfs.File, error) {
		f, err := d.FS.ReuseForWrite(from, to)
		if errors.Is(err, os.ErrNotExist) {
			return d.FS.ReuseForWrite(to, to)
		}
		return f, err
	})
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	name = d.path(name)
	return d.openToRead(name, func() (vfs.File, error) { return d.FS.Open(name, opts...) })
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	name = d.path(name)
	f, err := d.open(name, func() (vfs.File, error) { return d.FS.OpenDir(name) })
	if d.may("open", name, err) != nil {
		return nil, err
	}
	return folder{f}, nil
}

// write changes something on the disk.
func (d *disk) write(what, name string, call func() error) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.must(what, name, call())
}

func (d *disk) Link(from, to string) error {
	from, to = d.path(from), d.path(to)
	return d.write("link", to, func() error { return d.FS.Link(from, to) })
}

func (d *disk) Rename(from, to string) error {
	from, to = d.path(from), d.path(to)
	return d.write("rename", from, func() error { return d.FS.Rename(from, to) })
}

func (d *disk) Remove(name string) error {
	name = d.path(name)
	if err := d.alive(); err != nil {
		return err
	}
	return d.may("remove", name, d.FS.Remove(name))
}

func (d *disk) RemoveAll(name string) (err error) {
	name = d.path(name)
	if err := d.alive(); err != nil {
		return err
	}
	d.briefly(func() error { err = d.FS.RemoveAll(name); return err })
	return d.may("remove", name, err)
}

func (d *disk) MkdirAll(name string, mode os.FileMode) error {
	name = d.path(name)
	return d.write("make directory", name, func() error { return d.FS.MkdirAll(name, mode) })
}

func (d *disk) Lock(name string) (lock io.Closer, err error) {
	name = d.path(name)
	d.patiently(func() error { lock, err = d.FS.Lock(name); return err }) // for as long as the engine runs
	return lock, d.must("lock", name, err)
}

func (d *disk) List(name string) (list []string, err error) {
	name = d.path(name)
	d.briefly(func() error { list, err = d.FS.List(name); return err })
	return list, d.may("list", name, err)
}

func (d *disk) Stat(name string) (os.FileInfo, error) {
	name = d.path(name)
	info, err := d.FS.Stat(name)
	return info, d.may("look at", name, err)
}

// GetDiskUsage reports plenty for a file system that cannot tell, one in memory.
func (d *disk) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	usage, err := d.FS.GetDiskUsage(d.path(name))
	if err != nil {
		const plenty = 1 << 40
		return vfs.DiskUsage{AvailBytes: plenty, TotalBytes: plenty}, nil
	}
	return usage, nil
}
