package main

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adopt makes the orphans of a command our children, so that we learn of their end: the first
// process of a container may not wait for them, and they would stay in their group.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// reap waits for the children that have ended, up to one of waited, which have a waiter of their own.
func reap(waited ...int) {
	// where waitid(2) puts the number of a process: after three of 32 bits, aligned as a pointer is
	const at = (12 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
	for {
		var info unix.Siginfo
		if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil {
			return
		}
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
		if pid == 0 || slices.Contains(waited, pid) {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}
