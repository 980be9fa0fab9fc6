package consensus

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lni/vfs"
)

// syncData brings a file's bytes to the disk, with all that is needed to find them again, but
// without the time of its last change: the store writes its log into files that it has used before,
// and then that time is all that changes beside the bytes. On ext4 a sync of such a file writes
// half as much.
func syncData(f vfs.File) error {
	under, ok := f.(syscall.Conn)
	if !ok {
		return f.Sync()
	}
	conn, err := under.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if err == nil && failed != nil {
		err = fmt.Errorf("fdatasync: %w", failed)
	}
	return err
}
