//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMarksOutliveTheGuard(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := f.Check(t.Context(), "r", 9); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantStale(t, openFile(t, path).Check(t.Context(), "r", 8), "r", 8, 9)
}

func TestFilesOpenedTwiceAreOneGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	a := openFile(t, filepath.Join(dir, "marks"))
	if err := os.Symlink(filepath.Join(dir, "marks"), link); err != nil {
		t.Fatal(err)
	}
	b := openFile(t, link)
	for token := Token(1); token <= 10; token += 2 {
		if err := a.CheckOnce(t.Context(), "r", token); err != nil {
			t.Fatal(err)
		}
		wantStale(t, b.CheckOnce(t.Context(), "r", token), "r", token, token)
		if err := b.CheckOnce(t.Context(), "r", token+1); err != nil {
			t.Fatal(err)
		}
		wantStale(t, a.Check(t.Context(), "r", token), "r", token, token+1)
	}
}

func TestTwoThatMakeTheFileAtOnceShareIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	var wg sync.WaitGroup
	for token := Token(1); token <= 16; token++ {
		wg.Go(func() {
			f, err := OpenFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := f.Check(t.Context(), "r", token); err != nil && !errors.Is(err, ErrStale) {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantStale(t, openFile(t, path).Check(t.Context(), "r", 15), "r", 15, 16)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestADamagedFileIsNamedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "garbage": "holdfast-fence 1 zzzzzzzz\n", "foreign": "{}", "no version": "holdfast-fence 0 00000000\n"} {
		path := filepath.Join(t.TempDir(), "marks")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFile(path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s: the file is now %q (%v)", name, got, err)
		}
	}
}

// Marks that vanish under a running guard must not count as none.
func TestAFileThatIsDeletedOrDamagedUnderTheGuardAdmitsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := f.Check(t.Context(), "r", 9); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 10); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("deleted: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 10); !errors.Is(err, ErrDamaged) {
		t.Errorf("replaced by an empty file: %v", err)
	}
}

// A guard that was open before the directory was moved away went on in the moved one, beside the guards that
// open the path: it admitted tokens that those had refused.
func TestAFileWhoseDirectoryIsMovedAwayAdmitsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	moved, path := dir+".old", filepath.Join(dir, "marks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, path)
	for _, err := range []error{f.Check(t.Context(), "r", 5), os.Rename(dir, moved)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Check(t.Context(), "r", 6); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("moved: %v", err)
	}
	marks, err := os.ReadFile(filepath.Join(moved, "marks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(dir, 0o700), os.WriteFile(path, marks, 0o600), openFile(t, path).Check(t.Context(), "r", 9)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Check(t.Context(), "r", 7); err == nil || errors.Is(err, ErrStale) || !strings.Contains(err.Error(), dir) {
		t.Errorf("copied back: %v", err)
	}
	for _, err := range []error{os.RemoveAll(dir), os.Rename(moved, dir)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Check(t.Context(), "r", 7); err != nil {
		t.Errorf("moved back: %v", err)
	}
}

func TestAFailedWriteAdmitsNothingAndTheGuardRecovers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := f.Check(t.Context(), "r", 5); err != nil {
		t.Fatal(err)
	}
	// A directory that can't be removed stands where the new file would be written.
	if err := os.MkdirAll(filepath.Join(path+".tmp", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 6); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("unwritable: %v", err)
	}
	if err := f.Check(t.Context(), "r", 5); err != nil {
		t.Errorf("the token that is the mark: %v", err)
	}
	if err := os.RemoveAll(path + ".tmp"); err != nil {
		t.Fatal(err)
	}
	if err := f.CheckOnce(t.Context(), "r", 6); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

func TestALeftoverOfADeadWriterIsNoMark(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := os.WriteFile(path+".tmp", encode(map[string]Token{"r": 99})[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 5); err != nil {
		t.Fatal(err)
	}
}

func TestTheFileKeepsTheModeThatItsUserGaveIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	f := openFile(t, path)
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context(), "r", 5); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
}

func TestWaitingForAStuckProcessEndsWithTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	stuck, f := openFile(t, path), openFile(t, path)
	if err := stuck.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 { // one waits for the file, the other for the first one
		wg.Go(func() {
			if err := f.Check(ctx, "r", 5); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	stuck.unlock()
	if err := f.CheckOnce(t.Context(), "r", 5); err != nil {
		t.Errorf("after the lock was given up: %v", err)
	}
}

// OpenFile waited for as long as another process had the lock: a service that starts beside one that is
// stopped in its write hung without a word.
func TestOpenFileWaitsForAStuckProcessTenSecondsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "marks")
		stuck := openFile(t, path)
		if err := stuck.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		began, freed := time.Now(), make(chan struct{})
		time.AfterFunc(time.Minute, func() {
			stuck.unlock()
			close(freed)
		})
		f, err := OpenFile(path)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) || took != 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if err == nil {
			_ = f.Close()
		}
		<-freed
		openFile(t, path)
	})
}

func TestAClosedFileAdmitsNothing(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "marks"))
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Check(t.Context(), "r", 5); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestOpenFileSaysWhatIsWrongWithThePath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"", dir, filepath.Join(dir, "no", "such"), filepath.Join(dir, "x\x00y")} {
		if f, err := OpenFile(path); err == nil {
			t.Errorf("%q: no error", path)
			_ = f.Close()
		}
	}
}
