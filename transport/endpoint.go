package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/sparse"
)

const (
	dialLimit      = 10 * time.Second
	retryDelayMin  = 5 * time.Millisecond
	retryDelayMax  = time.Second
	handlerWait    = time.Second      // an accepted connection waits so long for the handler of its kind
	refusalsPeriod = 10 * time.Second // of at most one warning of each sort
)

// wire is the network below an endpoint: real sockets, or the memory network. Close ends no connection.
type wire interface {
	Addr() string
	Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error)
	WritePacket(ctx context.Context, b []byte, addr string) error
	Close() error
}

// listening is a wire that others reach. Accept and ReadPacket block until Close.
type listening interface {
	wire
	Accept() (net.Conn, error)
	ReadPacket() (Packet, error)
}

// endpoint is the part above the wire, the same for both networks.
type endpoint struct {
	wire        wire
	opts        Options
	server      *tls.Config // nil without TLS
	log         *slog.Logger
	handshaking *connLimit          // connections without a complete preface
	limits      map[Kind]*connLimit // the others
	answering   handshakes          // of accepted connections
	introducing handshakes          // of dialed ones
	events      atomic.Int64        // connections accepted, and reads of bytes
	refused     sparse.Lines        // about refused connections
	misnamed    sparse.Lines        // about dialed nodes whose certificate names another host
	hung        sparse.Lines        // about functions of the user's that hang
	unaccepted  sparse.Lines        // about connections that cannot be accepted
	unreceived  sparse.Lines        // about packets that cannot be received

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once
	err    error // of Close

	mu       sync.Mutex
	closed   bool
	conns    map[*conn]struct{}
	handlers map[Kind]*handler[net.Conn]
	receiver *handler[Packet] // nil: packets are dropped
	handles  chan struct{}    // closed, and replaced, when a kind has another handler
}

// newEndpoint returns an endpoint that owns the wire. Others reach it if the wire is listening.
func newEndpoint(w wire, opts Options) *endpoint {
	ctx, cancel := context.WithCancel(context.Background())
	e := &endpoint{
		wire:        w,
		opts:        opts,
		log:         opts.Logger,
		handshaking: newConnLimit(opts.StrangersMax, opts.StrangersMax, func(c *conn) int64 { return c.came }),
		limits:      make(map[Kind]*connLimit),
		answering:   make(handshakes, opts.StrangersMax),
		introducing: make(handshakes, introducedMax),
		refused:     sparse.Lines{Most: 1, Period: refusalsPeriod},
		misnamed:    sparse.Lines{Most: 1, Period: refusalsPeriod},
		hung:        sparse.Lines{Most: 1, Period: refusalsPeriod},
		unaccepted:  sparse.Lines{Most: 1, Period: refusalsPeriod},
		unreceived:  sparse.Lines{Most: 1, Period: refusalsPeriod},
		ctx:         ctx,
		cancel:      cancel,
		conns:       make(map[*conn]struct{}),
		handlers:    make(map[Kind]*handler[net.Conn]),
		handles:     make(chan struct{}),
	}
	for kind := KindRaft; kind.valid(); kind++ {
		hostMax := opts.HostMax
		if kind == KindClient { // a fleet of them may be behind one address, and each is in use
			hostMax = opts.ConnsMax
		}
		e.limits[kind] = newConnLimit(opts.ConnsMax, hostMax, func(c *conn) int64 { return c.heard.Load() })
	}
	if opts.TLS != nil {
		e.server = serverTLS(opts.TLS)
	}
	if w, ok := w.(listening); ok {
		e.tasks.Go(func() { e.acceptAll(w) })
		e.tasks.Go(func() { e.readPackets(w) })
	}
	return e
}

// Addr is the bound address.
func (e *endpoint) Addr() string { return e.wire.Addr() }

// WritePacket sends one packet, best effort.
func (e *endpoint) WritePacket(b []byte, addr string) error {
	if len(b) > PacketMax {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPacketTooLarge, len(b), PacketMax)
	}
	if e.ctx.Err() != nil {
		return ErrClosed
	}
	if err := e.wire.WritePacket(e.ctx, b, addr); err != nil {
		return e.explain(fmt.Errorf("holdfast: sending a packet to %s: %w", addr, err))
	}
	return nil
}

// Dial connects, does TLS and sends the preface.
func (e *endpoint) Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error) {
	if !kind.valid() {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, kind)
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()

	raw, err := e.wire.Dial(ctx, addr, kind)
	if err != nil {
		return nil, e.explain(fmt.Errorf("holdfast: dialing %s: %w", addr, err))
	}
	c := e.adopt(raw)
	if c == nil {
		return nil, ErrClosed
	}
	if err := e.introduce(ctx, c, addr, kind); err != nil {
		c.abandon()
		return nil, e.explain(fmt.Errorf("holdfast: dialing %s for %v: %w", addr, kind, err))
	}
	return c, nil
}

// introduce is the dialing side's part of the handshake, ended early by ctx.
func (e *endpoint) introduce(ctx context.Context, c *conn, addr string, kind Kind) error {
	stop := context.AfterFunc(ctx, func() { c.raw.SetDeadline(time.Unix(1, 0)) })
	err := func() error {
		if e.opts.TLS != nil {
			secure := tls.Client(c.raw, clientTLS(e.opts.TLS, addr))
			c.Conn = secure
			if err := e.secure(ctx, e.introducing, c, secure); err != nil {
				return e.advise(err, addr)
			}
		}
		_, err := c.Write(appendPreface(nil, kind))
		return err
	}()
	if !stop() && !errors.Is(err, ctx.Err()) { // the deadline is, or is about to be, in the past
		return ctx.Err()
	}
	return err
}

// explain adds ErrClosed to an error of a closed endpoint.
func (e *endpoint) explain(err error) error {
	if e.ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return err
}

// adopt registers a connection for Close to end. On a closed endpoint it closes raw and returns nil.
func (e *endpoint) adopt(raw net.Conn) *conn {
	c := &conn{Conn: raw, raw: raw, endpoint: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		raw.Close()
		return nil
	}
	e.conns[c] = struct{}{}
	return c
}

func (e *endpoint) disown(c *conn) {
	e.mu.Lock()
	delete(e.conns, c)
	e.mu.Unlock()
	if limit := c.limit.Load(); limit != nil {
		limit.leave(c)
	}
}

// Close first bars new connections and handlers, then ends the connections that exist.
func (e *endpoint) Close() error {
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		for c := range e.conns {
			c.raw.Close()
		}
		clear(e.conns)
		clear(e.handlers)
		e.receiver = nil
		e.mu.Unlock()

		e.cancel() // dials under way, pauses
		e.err = e.wire.Close()
		e.tasks.Wait()
	})
	return e.err
}
