package processes_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// smallDisk mounts a file system of so many bytes, and returns where.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("holdfast", dir, "tmpfs", 0, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENODEV) {
		t.Skipf("no small file system can be mounted here (it takes root): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until there is no room left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 1} {
		for b := make([]byte, size); ; {
			if _, err := f.Write(b); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAProcessOnAFullFileSystemLivesOnAndServesAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	small := smallDisk(t, "size=64m")
	n := 0
	p := procs(t, 3, func(cfg *processConfig) {
		if n++; n == 2 {
			cfg.DataDir = filepath.Join(small, "data")
		}
	})
	victim, others := p[1], []*proc{p[0], p[2]}
	held := victim.must(order{Op: "acquire", Name: "lock", TTL: 10 * time.Second}) // it has to live until the disk is full
	kept := others[0].must(order{Op: "acquire", Name: "kept", TTL: 30 * time.Second})
	next := others[1].begin(order{Op: "acquire", Name: "lock", TTL: time.Hour, Timeout: time.Minute})

	ballast := filepath.Join(small, "ballast")
	fill(t, ballast)
	// Its log has room for what fits into the blocks that it has.
	var last answer
	for range 100 {
		last = victim.ask(order{Op: "set", Name: "lock", Value: make([]byte, 32<<10), Timeout: failsWithin})
		if last.Err != "" {
			break
		}
	}
	if last.Err == "" {
		t.Fatal("the full disk takes everything")
	}
	end := victim.ask(order{Op: "end", Timeout: failsWithin})
	if !strings.Contains(end.Err, syscall.ENOSPC.Error()) {
		t.Errorf("the node on the full disk says %q", end.Err)
	}
	if look := victim.ask(order{Op: "look", Name: "lock"}); look.Valid || !look.Lost || !look.Done ||
		!strings.Contains(look.Err, syscall.ENOSPC.Error()) {
		t.Errorf("its holder sees valid=%v done=%v, %q", look.Valid, look.Done, look.Err)
	}
	if a := <-next; a.Err != "" || a.Token <= held.Token {
		t.Errorf("the next holder got %q, token %d after %d", a.Err, a.Token, held.Token)
	}
	if look := others[0].ask(order{Op: "look", Name: "kept"}); !look.Valid || look.Err != "" {
		t.Errorf("a lease of another process ended with it: %q", look.Err)
	}
	others[1].must(order{Op: "verify", Name: "kept", Token: kept.Token})

	if err := victim.Stop(testkit.CloseMax); err != nil { // which closes the node
		t.Error("the process did not end well:", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	victim.start()
	victim.ready()
	if a := victim.must(order{Op: "inspect", Name: "kept"}); len(a.Info.Holders) != 1 || a.Node != held.Node {
		t.Errorf("back as %s, was %s; it sees %+v", a.Node, held.Node, a.Info)
	}
	victim.must(order{Op: "acquire", Name: "own", TTL: time.Minute})
}
