package processes_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

// remount mounts a small disk anew.
func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("holdfast", dir, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// Sizes at which the first start fails ever later, and one that is enough to begin with.
func TestAFullDiskStopsAStartAtAnyPointAndHarmsNothing(t *testing.T) {
	t.Parallel()
	failed := 0
	for _, kib := range []int{4, 12, 16, 24, 32, 48, 64, 512} {
		disk := smallDisk(t, fmt.Sprint("size=", kib<<10))
		var said strings.Builder
		p := &proc{t: t, cfg: processConfig{
			DataDir: filepath.Join(disk, "node"), Join: []string{"file+" + filepath.Join(t.TempDir(), "peers")}, Bootstrap: 1,
		}, prepare: func(cmd *exec.Cmd) { cmd.Stderr = &said }}
		p.start()
		select {
		case a := <-p.begin(order{Op: "ready", Timeout: 20 * time.Second}):
			p.kill() // first, as the process writes to said
			said.WriteString(a.Err)
		case <-p.Done():
			if err := p.Err(); err == nil || err.Error() != "exit status 1" {
				t.Errorf("%d KiB: the process ended with %v: %s", kib, err, said.String())
			}
		}
		if said.Len() > 0 {
			failed++
			if !strings.Contains(said.String(), syscall.ENOSPC.Error()) || !strings.Contains(said.String(), p.cfg.DataDir) {
				t.Errorf("%d KiB: %s", kib, said.String())
			}
		}
		remount(t, disk, 0, "size=64m")
		p.prepare = nil
		p.start()
		p.ready()
		p.must(order{Op: "acquire", Name: "there is room", TTL: time.Minute})
		p.kill()
	}
	if failed < 4 {
		t.Errorf("only %d disks were too small: this test has shown little", failed)
	}
}

func TestADirectoryThatANodeFailedOnIsNotOpenedAgainByItsProcess(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := smallDisk(t, "size=16k")
	dir := filepath.Join(disk, "node")
	if err := verdict(t, dir, dir, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	remount(t, disk, 0, "size=64m")
	refuses(t, brisk(dir), holdfast.ErrDirInUse, "restart the process")
}

func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	if !processtest.Parked(t) {
		return
	}
	disk := smallDisk(t, "size=64m")
	dir := filepath.Join(disk, "node")
	works(t, dir)
	remount(t, disk, syscall.MS_RDONLY, "size=64m")
	refuses(t, brisk(dir), syscall.EROFS, dir, "writable")
	refuses(t, brisk(filepath.Join(disk, "another")), syscall.EROFS, disk, "writable")
	remount(t, disk, 0, "size=64m")
	works(t, dir)
}

func TestADirectoryOpensUnderAnotherHostName(t *testing.T) {
	t.Parallel()
	p := procs(t, 1)[0]
	told := make(acknowledged)
	told.write(p, 3)
	p.kill()
	p.prepare = func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `hostname moved && exec "$0"`, os.Args[0]}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs the right to change a host name")
	}
	p.start()
	p.ready()
	told.check(p)
}
