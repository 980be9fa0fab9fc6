package datadir

import (
	"os"

	"golang.org/x/sys/windows"
)

const errWouldBlock = windows.ERROR_LOCK_VIOLATION

// flock takes the exclusive lock of an open file without waiting. Any close of the file ends it.
// The locked byte lies beyond the text.
func flock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, place())
}

func funlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place())
}

func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }
