package store

import (
	"os"
	"syscall"
	"testing"

	"github.com/lni/vfs"
)

// cut is a file system that lacks a descriptor once, after the renaming of ReuseForWrite.
type cut struct {
	vfs.FS
	done bool
}

func (c *cut) ReuseForWrite(from, to string) (vfs.File, error) {
	if c.done {
		return c.FS.ReuseForWrite(from, to)
	}
	c.done = true
	if err := c.FS.Rename(from, to); err != nil {
		return nil, err
	}
	return nil, &os.PathError{Op: "open", Path: to, Err: syscall.EMFILE}
}

// An empty mark would let a shortened log pass for a whole one.
func TestTheMarkIsWholeAfterALackOfDescriptors(t *testing.T) {
	t.Parallel()
	fs := &cut{FS: vfs.NewMem()}
	if err := fs.MkdirAll("/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	d := NewDisk(fs, "/dir", "host", func(err error) { t.Error(err) }, make(chan struct{}), nil)
	m := &highWaterMark{fs: d, name: "/dir/raft" + markSuffix, replica: 7}
	want := Position{Term: 3, Vote: 7, Index: 100}
	if err := m.open(want); err != nil {
		t.Fatal(err)
	}
	if at, known, err := m.read(); at != want || !known || err != nil || !fs.done {
		t.Errorf("%+v, %t, %v, want %+v", at, known, err, want)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}
