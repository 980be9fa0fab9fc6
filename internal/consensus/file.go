package consensus

import "github.com/lni/vfs"

// file is an open file or directory of the engine. It does not pass on the descriptor, so that every sync
// comes through here.
type file struct {
	vfs.File
	disk *disk
	name string
}

func (f *file) Write(b []byte) (int, error) {
	f.disk.alive()
	n, err := f.File.Write(b)
	f.disk.must("write", f.name, err)
	return n, nil
}

func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	f.disk.alive()
	n, err := f.File.WriteAt(b, offset)
	f.disk.must("write", f.name, err)
	return n, nil
}

func (f *file) Sync() error {
	f.disk.alive()
	f.disk.must("sync", f.name, f.File.Sync())
	return nil
}
