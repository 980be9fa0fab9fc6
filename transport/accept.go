package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// acceptAll takes connections until the endpoint closes. A failing accept (no descriptors left,
// say) is the system's trouble, not a reason to stop: it is tried again, ever more slowly.
func (e *endpoint) acceptAll() {
	var retry backoff
	for {
		raw, err := e.wire.Accept()
		if e.ctx.Err() != nil {
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil {
			if retry.first() {
				e.log.Warn("accepting connections fails: retrying", "addr", e.Addr(), "error", err)
			}
			retry.wait(e.ctx.Done())
			continue
		}
		retry.reset()
		c := e.adopt(raw)
		if c == nil {
			return
		}
		c.host, c.came = hostOf(c.RemoteAddr()), e.events.Add(1)
		if evicted := e.handshaking.enter(c); evicted != nil {
			evicted.abandon()
		}
		e.tasks.Go(func() { e.receive(c) })
	}
}

// receive makes a stranger's connection one of a kind, or ends it.
func (e *endpoint) receive(c *conn) {
	kind, err := e.greet(c)
	if errors.Is(err, errStrayHTTP) {
		redirect(c)
	}
	stayed := e.handshaking.leave(c)
	switch {
	case e.ctx.Err() != nil: // Close ends the connection
	case !stayed:
		err = errors.New("holdfast: too many connections that do not say who they are")
	case err == nil && !e.deliver(c, kind):
		err = fmt.Errorf("%w: %v", errNobody, kind)
	}
	if err != nil {
		c.abandon()
		e.reportRefusal(c, err)
	}
}

// errNobody: that part of the node has not started yet, or has stopped.
var errNobody = errors.New("holdfast: nobody accepts connections of this kind")

// reportRefusal warns now and then. Who came and went without a word (a port check) is no news, nor
// who came too early.
func (e *endpoint) reportRefusal(c *conn, err error) {
	switch {
	case errors.Is(err, io.EOF):
		e.log.Debug("a connection closed before it said anything", "from", c.RemoteAddr())
		return
	case errors.Is(err, errNobody):
		e.log.Debug("refused a connection", "from", c.RemoteAddr(), "error", err)
		return
	}
	if n, ok := e.refused.allow(time.Now()); ok {
		e.log.Warn("refused a connection", "from", c.RemoteAddr(), "error", err, "unreported", n)
	}
}

// greet is the accepting side's part of the handshake.
func (e *endpoint) greet(c *conn) (Kind, error) {
	if e.server != nil {
		secure := tls.Server(c.raw, e.server)
		c.secure(secure)
		c.raw.SetDeadline(time.Now().Add(e.opts.HandshakeTimeout))
		if err := handshake(e.ctx, secure); err != nil {
			if looksLikePlainHTTP(err) {
				c.secure(c.raw)
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

// deliver gives the connection to who listens for its kind. A silent one may have to go for it.
func (e *endpoint) deliver(c *conn, kind Kind) bool {
	e.mu.Lock()
	l := e.listeners[kind]
	e.mu.Unlock()
	if l == nil {
		return false
	}
	limit := e.limits[kind]
	c.limit.Store(limit) // before it enters: whoever closes it from then on makes it leave
	if evicted := limit.enter(c); evicted != nil {
		evicted.abandon()
		e.reportRefusal(evicted, fmt.Errorf("holdfast: too many %v connections, this one was silent the longest", kind))
	}
	evicted := l.offer(c)
	if evicted != nil && evicted != c {
		evicted.abandon()
		e.reportRefusal(evicted, fmt.Errorf("holdfast: too many %v connections wait to be accepted", kind))
	}
	return evicted != c
}

// looksLikePlainHTTP: what TLS took for a record's header is the beginning of an HTTP request.
func looksLikePlainHTTP(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) && looksLikeHTTP([prefaceSize]byte(header.RecordHeader[:prefaceSize]))
}

// redirect answers a stray HTTP request. Then it reads what is still coming, within limits: closing
// with unread bytes would reset the connection and take the answer away.
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

// backoff doubles the pause between attempts that keep failing. The zero value is ready.
type backoff struct{ delay time.Duration }

func (b *backoff) reset()      { b.delay = 0 }
func (b *backoff) first() bool { return b.delay == 0 }

// wait pauses, or returns early when done closes.
func (b *backoff) wait(done <-chan struct{}) {
	b.delay = min(max(2*b.delay, retryDelayMin), retryDelayMax)
	timer := time.NewTimer(b.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// limiter lets one warning through per refusalsPeriod, so that a stranger cannot fill the log.
type limiter struct {
	mu      sync.Mutex
	next    time.Time
	skipped int
}

// allow reports whether to warn now, and how many times it said no since the last yes.
func (l *limiter) allow(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.next = l.skipped, 0, now.Add(refusalsPeriod)
	return skipped, true
}
