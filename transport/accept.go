package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
	"github.com/holdfast-go/holdfast/internal/sparse"
)

// acceptAll accepts connections until the endpoint closes.
func (e *endpoint) acceptAll(w listening) {
	e.repeat(func() error {
		raw, err := w.Accept()
		if fdreserve.Lacking(err) { // strangers may have all spares; one that has just come is mostly none
			if evicted := e.handshaking.displace(time.Now().Add(-spareTime)); evicted != nil {
				evicted.abandon()
				raw, err = w.Accept()
			}
		}
		if err != nil {
			return err
		}
		c := e.adopt(raw)
		if c == nil {
			return nil // the endpoint closes
		}
		c.host, c.at, c.came = HostOf(c.RemoteAddr()), time.Now(), e.events.Add(1)
		var ctx context.Context
		ctx, c.stop = context.WithCancel(e.ctx)
		if evicted := e.handshaking.enter(c); evicted != nil {
			evicted.abandon()
		}
		e.tasks.Add(1)
		go e.receive(ctx, c)
		return nil
	}, &e.unaccepted, func(err error, unreported int) {
		e.log.Warn("accepting connections fails: retrying", "addr", e.Addr(), "error", err, "unreported", unreported)
	})
}

// readPackets gives packets to the one that receives them, and drops them while there is none.
func (e *endpoint) readPackets(w listening) {
	e.repeat(func() error {
		p, err := w.ReadPacket()
		if err != nil {
			return err
		}
		e.mu.Lock()
		h := e.receiver.begin()
		e.mu.Unlock()
		if h != nil {
			h.call(p)
		}
		return nil
	}, &e.unreceived, func(err error, unreported int) {
		e.log.Warn("receiving packets fails: retrying", "addr", e.Addr(), "error", err, "unreported", unreported)
	})
}

// repeat repeats step until the endpoint closes. A failure, for want of a descriptor say, ends
// nothing: the pause before the next step doubles, and the first failure in a row is reported, as
// far as lines lets it: a process that frees descriptors and uses them up again has many such rows.
func (e *endpoint) repeat(step func() error, lines *sparse.Lines, report func(err error, unreported int)) {
	pause := time.Duration(0)
	for e.ctx.Err() == nil {
		err := step()
		switch {
		case err == nil:
			pause = 0
			continue
		case e.ctx.Err() != nil:
			return
		case pause == 0:
			if n, ok := lines.Take(time.Now()); ok {
				report(err, n)
			}
		}
		pause = min(max(2*pause, retryDelayMin), retryDelayMax)
		select {
		case <-time.After(pause):
		case <-e.ctx.Done():
		}
	}
}

// receive gives an accepted connection to the handler of its kind, or ends it. Close waits for what
// comes before the handler: the part of the node that handles knows when its handler may be waited for.
func (e *endpoint) receive(ctx context.Context, c *conn) {
	h := e.admit(ctx, c)
	e.tasks.Done()
	if h != nil {
		h.call(c)
	}
}

// admit learns the kind of an accepted connection and returns its handler. If there is none, admit ends
// the connection and returns nil.
func (e *endpoint) admit(ctx context.Context, c *conn) (h *handler[net.Conn]) {
	defer c.stop()
	kind, err := e.greet(ctx, c)
	if err == nil && !kind.vital() && e.starved(c) {
		err = fmt.Errorf("holdfast: no descriptor is left for a %v connection", kind)
	}
	switch {
	case err == nil:
		e.awaitHandler(kind)
	case errors.Is(err, errStrayHTTP):
		redirect(c)
	}
	stayed := e.handshaking.leave(c)
	switch {
	case e.ctx.Err() != nil: // Close ends the connection
	case !stayed && !errors.Is(err, errHung):
		err = errors.New("holdfast: too many connections without a preface")
	case err == nil:
		e.mu.Lock()
		h = e.handlers[kind].begin()
		e.mu.Unlock()
		if h == nil {
			err = fmt.Errorf("%w: %v", errNobody, kind)
		} else {
			e.limit(c, kind)
		}
	}
	if err != nil {
		c.abandon()
		e.reportRefusal(c, err)
	}
	return h
}

// errNobody: that part of the node has not started yet, or has stopped.
var errNobody = errors.New("holdfast: this node does not accept connections of this kind now")

// reportRefusal warns, at a limited rate. A port check (a connection without a byte) and a
// connection before the node has started are no warnings.
func (e *endpoint) reportRefusal(c *conn, err error) {
	switch {
	case errors.Is(err, io.EOF):
		e.log.Debug("a connection ended before its first byte", "from", c.RemoteAddr().String())
	case errors.Is(err, errNobody), errors.Is(err, errHung): // the latter is told by itself
		e.log.Debug("refused a connection", "from", c.RemoteAddr().String(), "error", err)
	default:
		if n, ok := e.refused.Take(time.Now()); ok {
			e.log.Warn("refused a connection", "from", c.RemoteAddr().String(), "error", err, "unreported", n)
		}
	}
}

// greet is the accepting side's part of the handshake.
func (e *endpoint) greet(ctx context.Context, c *conn) (Kind, error) {
	if e.server != nil {
		ctx, cancel := context.WithTimeout(ctx, e.opts.HandshakeTimeout)
		defer cancel()
		secure := tls.Server(c.raw, e.server)
		c.Conn = secure
		c.raw.SetDeadline(time.Now().Add(e.opts.HandshakeTimeout))
		if err := e.secure(ctx, e.answering, c, secure); err != nil {
			var header tls.RecordHeaderError
			if errors.As(err, &header) && looksLikeHTTP([prefaceSize]byte(header.RecordHeader[:prefaceSize])) {
				c.Conn = c.raw
				return 0, errStrayHTTP
			}
			return 0, err
		}
	}
	var preface [prefaceSize]byte
	c.raw.SetDeadline(time.Now().Add(e.opts.PrefaceTimeout))
	if _, err := io.ReadFull(c, preface[:]); err != nil {
		return 0, err
	}
	kind, err := parsePreface(preface)
	if err != nil {
		return 0, err
	}
	return kind, c.raw.SetDeadline(time.Time{})
}

// awaitHandler waits for a handler of the kind, for handlerWait at most. A peer may dial a part of
// the node that is just starting; a refusal would make the peer pause before it dials again.
func (e *endpoint) awaitHandler(kind Kind) {
	patience := time.After(handlerWait)
	for {
		e.mu.Lock()
		handled, handles := e.handlers[kind] != nil, e.handles
		e.mu.Unlock()
		if handled {
			return
		}
		select {
		case <-handles:
		case <-patience:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// limit counts the connection among those of its kind. It may end a silent one in its place.
func (e *endpoint) limit(c *conn, kind Kind) {
	limit := e.limits[kind]
	c.limit.Store(limit) // before it enters: its Close must make it leave from then on
	if evicted := limit.enter(c); evicted != nil {
		evicted.abandon()
		e.reportRefusal(evicted, fmt.Errorf("holdfast: too many %v connections, this one was silent the longest", kind))
	}
}

// redirect answers a stray HTTP request. It reads the rest of the request, within limits, because
// closing with unread bytes would reset the connection and lose the answer.
func redirect(c *conn) {
	c.raw.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, strayHTTPAnswer()); err != nil {
		return
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	io.Copy(io.Discard, io.LimitReader(c.raw, 64<<10))
}
