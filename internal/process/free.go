package process

import (
	"errors"
	"net"
)

// FreeAddrs are addresses of the loopback interface on which nothing listens, for processes that are
// told where to. Another process may take one before its user does.
func FreeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, e := net.Listen("tcp", "127.0.0.1:0")
		if e != nil {
			return nil, e
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
