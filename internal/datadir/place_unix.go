//go:build unix

package datadir

import (
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/fsm"
)

// placeOf names a lock file forever: by its number on its file system, in this boot of this kernel.
// While a process has the file open, no other file has its number.
func placeOf(lock os.FileInfo) fsm.Place {
	stat, ok := lock.Sys().(*syscall.Stat_t)
	boot := bootID()
	if !ok || boot == "" || len(boot) > fsm.BootBytesMax {
		return fsm.Place{}
	}
	return fsm.Place{Boot: boot, Device: uint64(stat.Dev), File: uint64(stat.Ino)}
}
