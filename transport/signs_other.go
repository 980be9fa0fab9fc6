//go:build !windows

package transport

import "syscall"

const (
	errRefused = syscall.ECONNREFUSED
	errReset   = syscall.ECONNRESET
	errBroken  = syscall.EPIPE
)
