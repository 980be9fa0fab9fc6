//go:build unix

package process

import (
	"syscall"
	"time"
)

// Freezes says whether there is Freeze here.
const Freezes = true

// Freeze stops the process until it is killed or ended by Stop. Its connections stay open.
func (p *Process) Freeze() { _ = p.Signal(syscall.SIGSTOP) } // an error is that it has ended

func (p *Process) wake() { _ = p.Signal(syscall.SIGCONT) }

// CPU is how long this process has kept processors busy; 0 where that is not known.
func CPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
