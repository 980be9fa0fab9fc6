package sim

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

// TraceVar names the environment variable that makes Run write a trace: the directory for it. There
// is a file for each run, named after its test. Each line is one packet, one write to a stream or
// to a disk, or one line of a node's log, with the virtual time and, under exact replay, the number
// of the lots that the runtime had drawn.
const TraceVar = "HOLDFAST_TRACE"

// tracer writes a trace. The nil tracer writes none.
type tracer struct {
	mu    sync.Mutex
	file  *os.File
	lines *bufio.Writer
	begin time.Time
	err   error // the first
}

// newTracer opens the trace that the environment asks for, if it does.
func newTracer(test string) (*tracer, error) {
	dir := os.Getenv(TraceVar)
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		name := filepath.Join(dir, fmt.Sprintf("%s.%d.trace", fileName(test), n))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &tracer{file: f, lines: bufio.NewWriterSize(f, 1<<20), begin: time.Now()}, nil
	}
}

// line adds a line.
func (t *tracer) line(format string, args ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintf(t.lines, "%d %x "+format+"\n", append([]any{time.Since(t.begin).Nanoseconds(), lots()}, args...)...)
	if t.err == nil {
		t.err = err
	}
}

// bytes adds a line about b, which stands for itself by its length and its hash.
func (t *tracer) bytes(what, from, to string, b []byte) {
	if t == nil {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	t.line("%s %s %s %d %x", what, from, to, len(b), h.Sum64())
}

// close ends the trace and returns what went wrong with it.
func (t *tracer) close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, err := range []error{t.lines.Flush(), t.file.Close()} {
		if t.err == nil {
			t.err = err
		}
	}
	return t.err
}

// network is net, with a trace of what is sent on it.
func (t *tracer) network(net transport.Network) transport.Network {
	if t == nil {
		return net
	}
	return tracedNetwork{net, t}
}

type tracedNetwork struct {
	transport.Network
	trace *tracer
}

func (n tracedNetwork) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := n.Network.Listen(ctx, bind, opts)
	n.trace.line("listen %s %v", bind, err)
	if err != nil {
		return nil, err
	}
	return tracedEndpoint{e, n.trace}, nil
}

type tracedEndpoint struct {
	transport.Endpoint
	trace *tracer
}

func (e tracedEndpoint) Dial(ctx context.Context, addr string, kind transport.Kind) (net.Conn, error) {
	c, err := e.Endpoint.Dial(ctx, addr, kind)
	e.trace.line("dial %s %s %v %v", e.Addr(), addr, kind, err)
	if err != nil {
		return nil, err
	}
	return tracedConn{c, e.trace}, nil
}

func (e tracedEndpoint) Listener(kind transport.Kind) net.Listener {
	return tracedListener{e.Endpoint.Listener(kind), e.trace}
}

func (e tracedEndpoint) WritePacket(b []byte, addr string) error {
	e.trace.bytes("packet", e.Addr(), addr, b)
	return e.Endpoint.WritePacket(b, addr)
}

type tracedListener struct {
	net.Listener
	trace *tracer
}

func (l tracedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tracedConn{c, l.trace}, nil
}

type tracedConn struct {
	net.Conn
	trace *tracer
}

func (c tracedConn) Write(b []byte) (int, error) {
	c.trace.bytes("stream", c.LocalAddr().String(), c.RemoteAddr().String(), b)
	return c.Conn.Write(b)
}

// handler is h, with a trace of what is logged.
func (t *tracer) handler(h slog.Handler) slog.Handler {
	if t == nil {
		return h
	}
	return tracedLog{h, t}
}

type tracedLog struct {
	slog.Handler
	trace *tracer
}

func (l tracedLog) Enabled(context.Context, slog.Level) bool { return true }

func (l tracedLog) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.trace.line("log %q", text)
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

func (l tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{l.Handler.WithAttrs(attrs), l.trace}
}

func (l tracedLog) WithGroup(name string) slog.Handler {
	return tracedLog{l.Handler.WithGroup(name), l.trace}
}

// fileName makes a name for a file of the name of a test.
func fileName(test string) string {
	name := []byte(test)
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			name[i] = '_'
		}
	}
	return string(name)
}
