package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// sparesMax is how many descriptors are set aside: for a fleet of five voters that all connect anew, one way
// and the other.
const sparesMax = 8

// spares are descriptors set aside for the time when the process or the host has no others. A replica that cannot
// connect then would lose its part in the group, and with it the leases of its node, the first time that
// another becomes raft leader. A connection made with one gives it back when it closes.
type spares struct {
	open func() (io.Closer, error)

	mu     sync.Mutex
	kept   []io.Closer
	lent   int
	closed bool
}

func newSpares() *spares {
	s := &spares{open: func() (io.Closer, error) { return os.Open(os.DevNull) }}
	s.fill()
	return s
}

// fill sets aside what is missing, as far as there is anything to be had.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.kept)+s.lent < sparesMax {
		f, err := s.open()
		if err != nil {
			return
		}
		s.kept = append(s.kept, f)
	}
}

// with makes a connection, with a spare descriptor if there is no other.
func (s *spares) with(connect func() (net.Conn, error)) (net.Conn, error) {
	c, err := connect()
	if err == nil {
		s.fill()
		return c, nil
	}
	for n := 0; n < sparesMax && lacking(err) && s.lend(); n++ { // somebody else in this process may be quicker to take what is freed
		if c, err = connect(); err == nil {
			return &borrowed{Conn: c, back: sync.OnceFunc(s.takeBack)}, nil
		}
		s.takeBack()
	}
	return nil, err
}

// lacking says whether there was no descriptor to be had.
func lacking(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// lend frees a descriptor.
func (s *spares) lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return false
	}
	last := len(s.kept) - 1
	s.kept[last].Close()
	s.kept = s.kept[:last]
	s.lent++
	return true
}

func (s *spares) takeBack() {
	s.mu.Lock()
	s.lent--
	s.mu.Unlock()
	s.fill()
}

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, f := range s.kept {
		f.Close()
	}
	s.kept = nil
}

// borrowed is a connection made with a spare descriptor.
type borrowed struct {
	net.Conn
	back func()
}

// Close ends the connection and sets its descriptor aside again.
func (b *borrowed) Close() error {
	err := b.Conn.Close()
	b.back()
	return err
}
