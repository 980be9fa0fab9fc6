package datadir

import (
	"io"
	"os"
	"strings"

	"github.com/lni/vfs"
)

// shifted shows a directory at a place where it will be: what is written into it may hold paths, as
// the engine's records of snapshots do.
type shifted struct {
	vfs.FS
	shown, is string
}

func (s *shifted) path(name string) string {
	if rest, ok := strings.CutPrefix(name, s.shown); ok {
		return s.is + rest
	}
	return name
}

func (s *shifted) Create(name string) (vfs.File, error) { return s.FS.Create(s.path(name)) }
func (s *shifted) Link(from, to string) error           { return s.FS.Link(s.path(from), s.path(to)) }
func (s *shifted) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.FS.Open(s.path(name), opts...)
}
func (s *shifted) OpenDir(name string) (vfs.File, error) { return s.FS.OpenDir(s.path(name)) }
func (s *shifted) OpenForAppend(name string) (vfs.File, error) {
	return s.FS.OpenForAppend(s.path(name))
}
func (s *shifted) Remove(name string) error     { return s.FS.Remove(s.path(name)) }
func (s *shifted) RemoveAll(name string) error  { return s.FS.RemoveAll(s.path(name)) }
func (s *shifted) Rename(from, to string) error { return s.FS.Rename(s.path(from), s.path(to)) }
func (s *shifted) ReuseForWrite(from, to string) (vfs.File, error) {
	return s.FS.ReuseForWrite(s.path(from), s.path(to))
}
func (s *shifted) MkdirAll(name string, mode os.FileMode) error {
	return s.FS.MkdirAll(s.path(name), mode)
}
func (s *shifted) Lock(name string) (io.Closer, error)   { return s.FS.Lock(s.path(name)) }
func (s *shifted) List(name string) ([]string, error)    { return s.FS.List(s.path(name)) }
func (s *shifted) Stat(name string) (os.FileInfo, error) { return s.FS.Stat(s.path(name)) }
func (s *shifted) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	return s.FS.GetDiskUsage(s.path(name))
}
