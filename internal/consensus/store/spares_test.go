package store

import (
	"io"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// poor is a disk of a process with so many descriptors left.
type poor struct {
	vfs.FS
	left int
}

// owing is something open on it.
type owing struct {
	vfs.File
	from *poor
}

func (o owing) Close() error {
	o.from.left++
	return o.File.Close()
}

func (p *poor) Create(name string) (vfs.File, error) {
	if p.left == 0 {
		return nil, syscall.EMFILE
	}
	f, err := p.FS.Create(name)
	if err != nil {
		return nil, err
	}
	p.left--
	return owing{f, p}, nil
}

func (p *poor) List(name string) ([]string, error) {
	if p.left == 0 {
		return nil, syscall.ENFILE
	}
	return p.FS.List(name)
}

// Two of three voters without descriptors, each waiting for the next file of its log, were no
// quorum: every lease of the fleet ended.
func TestTheLogGoesOnWithSpareDescriptors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a caller that finds no descriptor waits for a minute
		fs := &poor{FS: vfs.NewMem(), left: 3}
		spares := fdreserve.NewSet(3, func() (io.Closer, error) { return fs.Create("/spare") })
		defer spares.Close()
		d := NewDisk(fs, "/dir", "host", func(err error) { t.Fatal(err) }, make(chan struct{}), spares)
		for range 4 {
			var files []vfs.File
			for _, name := range []string{"/a", "/b"} {
				f, err := d.Create(name)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			for range 4 { // each for a moment only
				if list, err := d.List("/"); err != nil || len(list) != 3 {
					t.Errorf("%v, %v", list, err)
				}
			}
			for _, f := range files {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		spares.Close()
		if fs.left != 3 {
			t.Errorf("%d of 3 descriptors are there in the end", fs.left)
		}
	})
}
