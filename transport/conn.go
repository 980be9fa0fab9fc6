package transport

import (
	"net"
	"sync"
	"sync/atomic"
)

// conn is a connection that its endpoint can end. It hides whether there is TLS beneath, which also
// keeps net/http from taking our own protocol name for one of HTTP's.
type conn struct {
	net.Conn          // what the user reads and writes: raw, or TLS over raw
	raw      net.Conn // closing it takes no time and asks nobody
	endpoint *endpoint
	once     sync.Once
	err      error

	// Of accepted connections, on the endpoint's count of what happens, which is never the same
	// twice.
	host  string
	came  int64
	heard atomic.Int64              // when the last bytes came
	limit atomic.Pointer[connLimit] // of its kind; nil before it has one
}

// secure puts TLS between raw and the user; before anybody else knows the connection.
func (c *conn) secure(over net.Conn) { c.Conn = over }

// Read notes that the other side has something to say.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(c.endpoint.events.Add(1))
	}
	return n, err
}

// Close ends the connection. What was written is still delivered if the other side reads on. With
// TLS it may take up to five seconds when the other side does not read.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.endpoint.disown(c)
		c.err = c.Conn.Close()
	})
	return c.err
}

// abandon ends it without a farewell.
func (c *conn) abandon() {
	c.endpoint.disown(c)
	c.raw.Close()
}
