//go:build unix

package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// openerEnv makes the test binary a process that has the named directory open until it is killed.
const openerEnv = "HOLDFAST_DATADIR_OPENER"

func TestMain(m *testing.M) {
	path := os.Getenv(openerEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	d, err := Open(path, "fleet")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(d.Identity().Incarnation)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until killed
}

// openElsewhere has another process open the directory and returns what it printed.
func openElsewhere(t *testing.T, path string) (said string, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), openerEnv+"="+path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	return lines.Text(), func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func TestADirectoryIsOpenInOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := mustOpen(t, path, "fleet")
	said, kill := openElsewhere(t, path)
	kill()
	if !strings.Contains(said, ErrInUse.Error()) || !strings.Contains(said, strconv.Itoa(os.Getpid())) {
		t.Errorf("the other process said %q", said)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if said, kill = openElsewhere(t, path); said != "2" {
		t.Errorf("after Close the other process said %q: want incarnation 2, for the refused one counts none", said)
	}
	if _, err := Open(path, "fleet"); !errors.Is(err, ErrInUse) {
		t.Errorf("beside the other process: %v", err)
	}
	kill()
	if got := mustOpen(t, path, "fleet").Identity().Incarnation; got != 3 {
		t.Errorf("after the other process was killed: incarnation %d", got)
	}
}

func TestADirectoryIsOpenOnceInAProcessUnderWhateverName(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	path, link := filepath.Join(parent, "data"), filepath.Join(parent, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, path, "fleet")
	for _, name := range []string{path, link, path + "/../data/."} {
		if _, err := Open(name, "fleet"); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Where flock does not exclude the own process, the registry does.
	info, err := os.Stat(filepath.Join(link, lockName))
	if err != nil || !opened.has(info) {
		t.Errorf("the open directory is not registered (%v)", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if opened.has(info) {
		t.Error("the closed directory is still registered")
	}
	mustOpen(t, link, "fleet")
}

func TestOfManyThatOpenAtOnceOneGetsIn(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var in atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			d, err := Open(path, "fleet")
			if errors.Is(err, ErrInUse) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			in.Add(1)
			t.Cleanup(func() { _ = d.Close() })
		})
	}
	wg.Wait()
	if in.Load() != 1 {
		t.Errorf("%d got in", in.Load())
	}
}
