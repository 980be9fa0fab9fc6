//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"os"
	"syscall"
)

// flock takes the exclusive lock of an open file; false and nil: another process has it.
func flock(file *os.File) (bool, error) {
	err := flockRetry(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func funlock(file *os.File) error { return flockRetry(file, syscall.LOCK_UN) }

func flockRetry(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
