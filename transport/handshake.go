package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

const (
	introducedMax  = 256                    // handshakes of dialed connections at a time
	handshakeGrace = 250 * time.Millisecond // for a handshake to return after its connection has ended
)

// errHung: a function of the user's is still running after the end of its handshake.
var errHung = errors.New("holdfast: a function of Config.TLS does not return")

// handshakes are the places of handshakes of TLS, accepted or dialed ones. A function of the user's
// may hang in one, on a mount or a server of certificates: its goroutine then stays, with its place,
// and nobody waits for it. So such goroutines are bounded. Accepted connections that are not evicted
// find a place as long as no function hangs, since there are as many as strangers.
type handshakes chan struct{}

// do is the handshake of TLS, which ends with ctx.
func (h handshakes) do(ctx context.Context, c *conn, secure *tls.Conn) error {
	select {
	case h <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("holdfast: no place beside %d other handshakes, in which a function of Config.TLS may hang: %w", cap(h), ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-h }()
		done <- handshake(ctx, secure)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	c.raw.Close() // what reads or writes returns
	select {
	case err := <-done:
		return err
	case <-time.After(handshakeGrace):
		return fmt.Errorf("%w: %w", errHung, ctx.Err())
	}
}

// secure is the handshake of TLS. It warns, at a limited rate, of a function that hangs: the node may
// accept nobody, and reach nobody.
func (e *endpoint) secure(ctx context.Context, h handshakes, c *conn, secure *tls.Conn) error {
	err := h.do(ctx, c, secure)
	if errors.Is(err, errHung) {
		if n, ok := e.hung.Take(time.Now()); ok {
			e.log.Warn("gave up a handshake", "with", c.raw.RemoteAddr().String(), "error", err, "unreported", n)
		}
	}
	return err
}

// handshake is the handshake of TLS. A function of the user's that panics in it costs the
// connection, not the process.
func handshake(ctx context.Context, c *tls.Conn) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("holdfast: a function of Config.TLS panicked: %v", value)
		}
	}()
	return c.HandshakeContext(ctx)
}
