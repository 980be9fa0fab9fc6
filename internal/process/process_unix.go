//go:build unix

package process

import (
	"syscall"
	"time"
)

func (p *Process) wake() { _ = p.Signal(syscall.SIGCONT) }

// CPU is how long this process has kept processors busy; 0 where that is not known.
func CPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
