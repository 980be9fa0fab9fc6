package consensus

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/consensus/store"
)

// overlay is a directory of a replica whose files stay as they are: what the engine writes stays in
// memory. Tables of the log store and snapshots, which are most of the directory, are read where they
// are, because the engine never changes a finished one. The other files are copied, since it may.
type overlay struct {
	vfs.FS // in memory, with an empty file in the place of each below
	under  vfs.FS
	below  map[string]bool // files that are read from under
}

func newOverlay(under vfs.FS, dir string) (*overlay, error) {
	o := &overlay{FS: vfs.NewMem(), under: under, below: make(map[string]bool)}
	if err := o.add(dir); err != nil {
		return nil, err
	}
	if err := o.add(store.MarkOf(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return o, nil
}

// add adds a file, or a directory with all that is in it.
func (o *overlay) add(path string) error {
	info, err := o.under.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return o.addFile(path)
	}
	if err := o.MkdirAll(path, 0o700); err != nil {
		return err
	}
	names, err := o.under.List(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := o.add(o.PathJoin(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (o *overlay) addFile(path string) error {
	out, err := o.FS.Create(path)
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, ".sst") || strings.HasSuffix(path, ".gbsnap") {
		o.below[path] = true
		return out.Close()
	}
	in, err := o.under.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close(), out.Close())
}

// Open opens a file to read.
func (o *overlay) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if o.isBelow(name) {
		return o.under.Open(name, opts...)
	}
	return o.FS.Open(name, opts...)
}

// Stat describes a file.
func (o *overlay) Stat(name string) (os.FileInfo, error) {
	if o.isBelow(name) {
		return o.under.Stat(name)
	}
	return o.FS.Stat(name)
}

// isBelow reports whether a file is read from under: the engine has not removed it.
func (o *overlay) isBelow(name string) bool {
	_, err := o.FS.Stat(name)
	return o.below[name] && err == nil
}
