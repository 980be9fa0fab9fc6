package processes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// volume is a file system of its own, in a file, that can be frozen as storage that stalls does.
type volume struct {
	t      *testing.T
	at     string
	frozen bool
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a file system is mounted by root alone")
	}
	dir := t.TempDir()
	v := &volume{t: t, at: filepath.Join(dir, "mounted")}
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(v.at, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, v.at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system can be made and mounted here: %s: %v: %s", args[0], err, out)
		}
	}
	t.Cleanup(func() {
		v.freeze(false)
		if err := syscall.Unmount(v.at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return v
}

// Of linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// freeze has all writes wait, or go on.
func (v *volume) freeze(on bool) {
	v.t.Helper()
	if v.frozen == on {
		return
	}
	dir, err := os.Open(v.at)
	if err != nil {
		v.t.Error(err)
		return
	}
	defer dir.Close()
	request := uint(fiThaw)
	if on {
		request = fiFreeze
	}
	if err := unix.IoctlSetInt(int(dir.Fd()), request, 0); err != nil {
		v.t.Error(err)
		return
	}
	v.frozen = on
}

// Before, the raft leader with a frozen disk was Ready and named itself as the raft leader, no line above
// Info was logged, and all leases of the fleet were lost without a word.
func TestAProcessOnAFrozenFileSystemSaysSo(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]int{"the raft leader's and a follower's": 2, "a follower's": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var volumes []*volume
			list := procs(t, 3, func(cfg *processConfig) {
				volumes = append(volumes, newVolume(t))
				cfg.DataDir = filepath.Join(volumes[len(volumes)-1].at, "data")
			})
			leader, others := byRole(t, list)
			for i, p := range list { // their renewals are written on every disk
				p.must(order{Op: "acquire", Name: fmt.Sprint("held by ", i), TTL: 2 * time.Second})
			}
			before := others[1].must(order{Op: "acquire", Name: "kept", TTL: time.Hour})
			victims := []*proc{others[0], leader}[:frozen]
			freeze := func(on bool) {
				for _, p := range victims {
					volumes[slices.Index(list, p)].freeze(on)
				}
			}
			t.Cleanup(func() { freeze(false) }) // before the processes are killed
			freeze(true)
			for _, p := range victims {
				hangs := func(s status) bool {
					return !s.Ready && strings.HasPrefix(s.Waits, "the disk has not finished a write for ")
				}
				p.says("that its disk hangs", hangs)
				p.stays("ill", 5*time.Second, hangs)
			}
			if frozen == 1 {
				leader.saysReady()
				others[1].must(order{Op: "turn", Name: "of the others", TTL: time.Minute})
			} else {
				others[1].says("that it hears no raft leader", func(s status) bool { return !s.Ready && s.RaftLeader == "" && s.Waits != "" })
			}
			freeze(false)
			for _, p := range list {
				p.saysReady()
				if a := p.must(order{Op: "turn", Name: "of all", TTL: time.Minute}); a.Token <= before.Token {
					t.Errorf("token %d after %d", a.Token, before.Token)
				}
			}
			others[1].must(order{Op: "verify", Name: "kept", Token: before.Token})
		})
	}
}
