//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// heedNoSignal ignores all that can be ignored. A command that is stopped at the terminal is woken
// at once: a holder that stands still loses its lock.
func heedNoSignal() {
	signal.Ignore()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTSTP)
	go func() {
		for range stopped {
			_ = unix.Kill(0, syscall.SIGCONT)
		}
	}()
}

// endOwnGroup ends the group of this process, and the process with it.
func endOwnGroup(grace time.Duration) {
	_ = unix.Kill(0, syscall.SIGTERM)
	_ = unix.Kill(0, syscall.SIGCONT)
	time.Sleep(grace)
	_ = unix.Kill(0, syscall.SIGKILL)
}
