package transport

import "syscall"

// The numbers of Windows Sockets: ECONNRESET and the others of package syscall are not what Windows returns.
const (
	errRefused = syscall.Errno(10061) // WSAECONNREFUSED
	errReset   = syscall.WSAECONNRESET
	errBroken  = syscall.WSAECONNABORTED
)
