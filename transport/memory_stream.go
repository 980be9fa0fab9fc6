package transport

import (
	"net"
	"time"
)

// stream is a connection of the memory network: two pipes and their two ends.
type stream struct {
	net              *Memory
	from, to         place // who dialed whom
	kind             Kind
	there, back      *pipe
	dialed, accepted *memoryConn
}

// newStream makes one; local is the dialing end's own address.
func newStream(m *Memory, from, to place, local string, kind Kind) *stream {
	s := &stream{net: m, from: from, to: to, kind: kind}
	s.there = newPipe(s, from, to)
	s.back = newPipe(s, to, from)
	near, far := memoryAddr(local), memoryAddr(to.addr)
	s.dialed = &memoryConn{in: s.back, out: s.there, local: near, remote: far}
	s.accepted = &memoryConn{in: s.there, out: s.back, local: far, remote: near}
	return s
}

// reset breaks both directions; what was under way is lost.
func (s *stream) reset() {
	s.there.reset()
	s.back.reset()
	s.forget()
}

// forget drops the stream from those of the network.
func (s *stream) forget() {
	s.net.mu.Lock()
	delete(s.net.streams, s)
	s.net.mu.Unlock()
}

// memoryConn is one end of a stream.
type memoryConn struct {
	in, out       *pipe
	local, remote net.Addr
}

// Read reads what the other end wrote.
func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.describe("read", err)
}

// Write blocks while too many bytes are under way.
func (c *memoryConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.describe("write", err)
}

// Close ends this side: the other one reads what is under way, then io.EOF; its writes fail.
func (c *memoryConn) Close() error {
	first := c.out.closeWriter()
	c.in.closeReader()
	if !first {
		return c.describe("close", net.ErrClosed)
	}
	if c.in.writerGone() {
		c.out.stream.forget()
	}
	return nil
}

// LocalAddr is this end's address.
func (c *memoryConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's.
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline bounds reads and writes, those under way too.
func (c *memoryConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds reads.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	return c.describe("set", c.in.setReadDeadline(t))
}

// SetWriteDeadline bounds writes.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	return c.describe("set", c.out.setWriteDeadline(t))
}
