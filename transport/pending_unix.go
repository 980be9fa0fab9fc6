//go:build unix

package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// pendingLook is how long a look for a connection takes: Close waits for it.
const pendingLook = 20 * time.Millisecond

// awaitConnection waits, without a descriptor, until Accept has a connection to take, or fails.
func (s *sockets) awaitConnection() error {
	listener, err := s.tcp.SyscallConn()
	if err != nil {
		return err
	}
	for waits := false; !waits; {
		var n int
		if errClosed := listener.Control(func(fd uintptr) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pendingLook.Milliseconds()))
		}); errClosed != nil {
			return net.ErrClosed
		}
		waits = n > 0 || err != nil && err != unix.EINTR
	}
	return nil
}
