package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs fn on a thread without root's right to write everywhere.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			const nobody = 65534
			if err := unix.Setfsuid(nobody); err != nil {
				t.Error(err)
				return
			}
		}
		fn()
	}()
	<-done
}

func TestAReadOnlyDirectoryIsRefusedWithItsName(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for dir := path; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o555); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		for _, dir := range []string{path, filepath.Join(path, "below")} {
			_, err := Open(dir, "fleet")
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "writable") {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
}
