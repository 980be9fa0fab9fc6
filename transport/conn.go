package transport

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that its endpoint can end. It hides TLS, which also keeps net/http from
// taking our protocol name for one of HTTP's.
type conn struct {
	net.Conn          // raw, or TLS over raw
	raw      net.Conn // its Close does not block
	endpoint *endpoint
	once     sync.Once
	err      error
	broken   atomic.Bool // a Write has failed

	// Of accepted connections; came and heard are numbers of the endpoint's events.
	stop  func() // ends the wait for its handshake
	host  string
	at    time.Time // when it came
	came  int64
	heard atomic.Int64              // the last bytes
	limit atomic.Pointer[connLimit] // of its kind; nil during the handshake
}

// Read counts the event for the limits.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(c.endpoint.events.Add(1))
	}
	return n, err
}

// Write notes an error, after which nothing can follow.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// Binding returns bytes that TLS has agreed on for a connection of an endpoint, and for no other:
// both ends get the same. nil without TLS.
func Binding(c net.Conn) []byte {
	own, ok := c.(*conn)
	if !ok {
		return nil
	}
	secure, ok := own.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	state := secure.ConnectionState()
	agreed, err := state.ExportKeyingMaterial("EXPORTER-holdfast-client", nil, 32)
	if err != nil {
		return nil
	}
	return agreed
}

// Close ends the connection. The peer still receives written bytes if it reads on. With TLS, Close
// takes up to five seconds if the peer does not read, but not after a Write that has failed: TLS would
// write its last word all the same.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.endpoint.disown(c)
		if c.broken.Load() {
			c.err = c.raw.Close()
		} else {
			c.err = c.Conn.Close()
		}
	})
	return c.err
}

// abandon ends the connection at once.
func (c *conn) abandon() {
	c.endpoint.disown(c)
	c.raw.Close()
	if c.stop != nil {
		c.stop() // a function of the user's in its handshake may not return
	}
}
