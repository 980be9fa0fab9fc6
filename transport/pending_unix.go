//go:build unix

package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// pollLimit bounds a poll for a connection, for which Close waits.
const pollLimit = 20 * time.Millisecond

// awaitConnection waits, without a descriptor of its own, for a connection to accept.
func (s *sockets) awaitConnection() error {
	listener, err := s.tcp.SyscallConn()
	if err != nil {
		return err
	}
	for waits := false; !waits; {
		var n int
		if errClosed := listener.Control(func(fd uintptr) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pollLimit.Milliseconds()))
		}); errClosed != nil {
			return net.ErrClosed
		}
		waits = n > 0 || err != nil && err != unix.EINTR
	}
	return nil
}
