//go:build unix

package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

const errWouldBlock = unix.EWOULDBLOCK

// flock takes the exclusive lock of an open file without waiting. Any close of the file ends it.
func flock(f *os.File) error { return flockRetry(f, unix.LOCK_EX|unix.LOCK_NB) }

func funlock(f *os.File) error { return flockRetry(f, unix.LOCK_UN) }

func flockRetry(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
