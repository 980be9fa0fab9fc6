package process

import (
	"errors"
	"io"
	"net"
	"os"
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

// AppendLine adds a line to a file, which it makes if there is none. Processes that add at once, as
// their addresses, do not mix their lines.
func AppendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, line+"\n")
	return errors.Join(err, f.Close())
}
