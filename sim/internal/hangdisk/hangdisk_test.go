package hangdisk

import (
	"testing"
	"testing/synctest"

	"github.com/lni/vfs"
)

func TestASyncWaitsWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New(vfs.NewMem())
		f, err := d.Create("log")
		if err != nil {
			t.Fatal(err)
		}
		synced := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- f.Sync() }()
			synctest.Wait()
			return done
		}
		d.Hang()
		first := synced()
		if len(first) > 0 {
			t.Error("a sync is finished on a disk that hangs")
		}
		d.Resume()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if again := synced(); len(again) == 0 {
			t.Error("a sync waits on a disk that goes on")
		} else if err := <-again; err != nil {
			t.Error(err)
		}
	})
}
