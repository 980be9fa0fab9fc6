package transport

import (
	"io"
	"net"
	"time"
)

// stream is a connection of the memory network: two pipes and their two ends.
type stream struct {
	net              *Memory
	from, to         place // the dialing end and the other
	kind             Kind
	there, back      *pipe
	dialed, accepted *memoryConn
}

// newStream makes a stream; local is the address of the dialing end.
func newStream(m *Memory, from, to place, local string, kind Kind) *stream {
	s := &stream{net: m, from: from, to: to, kind: kind}
	s.there = newPipe(s, from, to)
	s.back = newPipe(s, to, from)
	near, far := memoryAddr(local), memoryAddr(to.addr)
	s.dialed = &memoryConn{in: s.back, out: s.there, local: near, remote: far}
	s.accepted = &memoryConn{in: s.there, out: s.back, local: far, remote: near}
	return s
}

// reset breaks both directions; bytes under way are lost.
func (s *stream) reset() {
	s.there.reset()
	s.back.reset()
	s.forget()
}

// forget removes the stream from the network.
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

// Read reads bytes of the other end.
func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.describe("read", err)
}

// Write blocks while too many bytes are under way.
func (c *memoryConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.describe("write", err)
}

// Close ends this side: the other end reads the bytes under way, then io.EOF; its writes fail.
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

// RemoteAddr is the other end's address.
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline bounds reads and writes, also those under way.
func (c *memoryConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds reads.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	return c.describe("set", c.in.setDeadline(&c.in.readBy, t, &c.in.readerDone))
}

// SetWriteDeadline bounds writes.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	return c.describe("set", c.out.setDeadline(&c.out.writeBy, t, &c.out.writerDone))
}

// describe gives an error the form of real connections; io.EOF stays bare.
func (c *memoryConn) describe(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
