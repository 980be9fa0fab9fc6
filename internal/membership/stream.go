package membership

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

// stream is a connection of the carrier. It passes no byte on before its head is validated.
type stream struct {
	net.Conn
	carrier  *carrier
	incoming bool
	host     string // of an incoming stream
	taken    int    // counted bytes; under the carrier's mu
	closing  sync.Once
	err      error // of Close

	// For the reader: memberlist reads on one goroutine.
	vetted bool
	head   []byte // validated bytes that are not read yet
	read   int
	limit  int // of read
}

// track registers a connection. After Shutdown it closes the connection and returns nil. A host
// with too many incoming streams loses its oldest: an honest one takes milliseconds.
func (c *carrier) track(conn net.Conn, incoming bool) *stream {
	s := &stream{Conn: c.traffic.Conn(conn), carrier: c, incoming: incoming, limit: streamBytesMax}
	if incoming {
		s.host = transport.HostOf(conn.RemoteAddr())
	}
	var oldest *stream
	c.mu.Lock()
	closed := c.open == nil
	if !closed {
		c.open[s] = struct{}{}
	}
	if !closed && incoming {
		c.hosts[s.host] = append(c.hosts[s.host], s)
		if all := c.hosts[s.host]; len(all) > hostStreamsMax {
			oldest, c.hosts[s.host] = all[0], all[1:]
		}
	}
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil
	}
	if oldest != nil {
		c.refuse(conn.RemoteAddr(), errCrowd)
		c.wg.Go(func() { _ = oldest.Close() }) // slow with TLS
	}
	return s
}

var errCrowd = errors.New("holdfast: too many gossip streams of one host, the oldest is closed")

// Read validates the head, and ends a stream that exceeds its announced size.
func (s *stream) Read(b []byte) (int, error) {
	if !s.vetted {
		if err := s.validate(); err != nil {
			return 0, err
		}
	}
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.read >= s.limit {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.Conn.Read(b[:min(len(b), s.limit-s.read)])
	s.read += n
	if !s.take(min(n, s.read-streamFree)) {
		return 0, s.refuse(refuse("%d bytes of state, while others bring much", s.read))
	}
	return n, err
}

// validate reads until the head is complete.
func (s *stream) validate() error {
	if s.incoming {
		slow := time.AfterFunc(headLimit, func() { _ = s.Close() })
		defer slow.Stop()
	}
	buffer := make([]byte, headMax)
	for {
		n, err := s.Conn.Read(buffer[s.read:])
		s.read += n
		limit, cost, bad := s.carrier.validator.head(buffer[:s.read], s.incoming)
		switch {
		case bad == nil && s.read > limit:
			return s.refuse(refuse("stream of more than %d bytes", limit))
		case bad == nil && !s.take(cost):
			return s.refuse(refuse("large state, while others bring much"))
		case bad == nil:
			s.vetted, s.head, s.limit = true, buffer[:s.read], limit
			return nil
		case !errors.Is(bad, errShort):
			return s.refuse(bad)
		case s.read == len(buffer):
			return s.refuse(refuse("stream without an end of its header"))
		case err != nil:
			return err
		}
	}
}

func (s *stream) refuse(err error) error {
	s.carrier.refuse(s.RemoteAddr(), err)
	return err
}

// take counts n bytes until Close; false if all streams hold too many.
func (s *stream) take(n int) bool {
	if n <= 0 {
		return true
	}
	c := s.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[s]; !open || c.bytes+n > bytesMax {
		return false
	}
	c.bytes += n
	s.taken += n
	return true
}

// Write closes the stream on error: memberlist forgets a stream whose first write failed.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err != nil {
		_ = s.Close()
	}
	return n, err
}

// Close ends the stream; later calls wait for the first.
func (s *stream) Close() error {
	s.closing.Do(func() {
		s.carrier.forget(s)
		s.err = s.Conn.Close()
	})
	return s.err
}

// forget removes a stream from the open ones.
func (c *carrier) forget(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, s)
	c.bytes -= s.taken
	s.taken = 0
	if !s.incoming {
		return
	}
	c.hosts[s.host] = slices.DeleteFunc(c.hosts[s.host], func(other *stream) bool { return other == s })
	if len(c.hosts[s.host]) == 0 {
		delete(c.hosts, s.host)
	}
}
