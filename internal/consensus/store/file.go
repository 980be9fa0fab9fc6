package store

import (
	"errors"
	"io"
	"os"

	"github.com/lni/vfs"
)

// file is an open file or directory of the engine. It hides the descriptor, so each sync is a call
// of Sync.
type file struct {
	vfs.File
	disk *disk
	name string
	back func() // returns a spare descriptor, nil if there is none
}

// Read and ReadAt return the end of the file, and no other error.
func (f *file) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	return n, f.readable(err)
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(b, offset)
	if err == nil && isSSTable(f.name) {
		err = f.checkSSTable(b, offset)
	}
	return n, f.readable(err)
}

func (f *file) checkSSTable(b []byte, offset int64) error {
	info, err := f.File.Stat()
	if err != nil {
		return err
	}
	return checkSSTable(b, offset, info.Size())
}

func (f *file) readable(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return f.disk.must("read", f.name, err)
}

func (f *file) Write(b []byte) (n int, err error) {
	err = f.disk.write("write", f.name, func() error {
		n, err = f.File.Write(b)
		return err
	})
	return n, err
}

func (f *file) WriteAt(b []byte, offset int64) (n int, err error) {
	err = f.disk.write("write", f.name, func() error {
		n, err = f.File.WriteAt(b, offset)
		return err
	})
	return n, err
}

// Sync brings the file's bytes to the disk.
func (f *file) Sync() error {
	return f.disk.write("sync", f.name, func() error { return syncData(f.File) })
}

// folder is an open directory.
type folder struct{ *file }

// Sync brings the directory's names to the disk.
func (f folder) Sync() error { return f.disk.write("sync", f.name, f.File.Sync) }

// Stat describes the open file.
func (f *file) Stat() (os.FileInfo, error) {
	info, err := f.File.Stat()
	return info, f.disk.must("look at", f.name, err)
}

// Close may report an earlier write that failed.
func (f *file) Close() error {
	err := f.File.Close()
	if errors.Is(err, os.ErrClosed) {
		return err
	}
	if f.back != nil {
		f.back()
	}
	return f.disk.must("close", f.name, err)
}
