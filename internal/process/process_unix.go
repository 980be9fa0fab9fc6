//go:build unix

package process

import "syscall"

// wake lets a process go on that was stopped by a signal.
func (p *Process) wake() { _ = p.Signal(syscall.SIGCONT) }
