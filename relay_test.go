package holdfast_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/transport"
)

// relay is whoever sits on the network before a node's port: it passes on what comes, TCP and UDP, and
// remembers it.
type relay struct {
	tcp     net.Listener
	udp     *net.UDPConn
	to      atomic.Pointer[string] // where the node really is
	noUDP   atomic.Bool
	running sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // nil after close
	streams [][]byte              // what was sent to the node, the beginning of each
	packets [][]byte
}

const (
	streamKept  = 64 << 10
	packetsKept = 200
)

func newRelay(t testing.TB) *relay {
	t.Helper()
	for range 20 { // until a number is free for both
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(tcp.Addr().(*net.TCPAddr).AddrPort()))
		if err != nil {
			tcp.Close()
			continue
		}
		r := &relay{tcp: tcp, udp: udp, conns: make(map[net.Conn]struct{})}
		r.running.Go(r.accept)
		r.running.Go(r.forward)
		t.Cleanup(r.close)
		return r
	}
	t.Fatal("no port is free for TCP and UDP")
	return nil
}

func (r *relay) addr() string { return r.tcp.Addr().String() }

func (r *relay) close() {
	r.tcp.Close()
	r.udp.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.running.Wait()
}

// hold closes c with the relay; false if that is over.
func (r *relay) hold(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *relay) drop(c net.Conn) {
	c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relay) accept() {
	for {
		c, err := r.tcp.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.pass(c) })
	}
}

func (r *relay) pass(c net.Conn) {
	to := r.to.Load()
	if to == nil || !r.hold(c) {
		c.Close()
		return
	}
	defer r.drop(c)
	node, err := net.Dial("tcp", *to)
	if err != nil || !r.hold(node) {
		return
	}
	defer r.drop(node)
	r.mu.Lock()
	n := len(r.streams)
	r.streams = append(r.streams, nil)
	r.mu.Unlock()
	r.running.Go(func() {
		io.Copy(c, node)
		c.Close()
	})
	io.Copy(node, io.TeeReader(c, keeper{r, n}))
}

// keeper keeps the beginning of a stream.
type keeper struct {
	r *relay
	n int
}

func (k keeper) Write(b []byte) (int, error) {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	s := &k.r.streams[k.n]
	*s = append(*s, b[:min(len(b), streamKept-len(*s))]...)
	return len(b), nil
}

func (r *relay) forward() {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := r.udp.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		to := r.to.Load()
		if err != nil || to == nil || r.noUDP.Load() {
			continue
		}
		if addr, err := net.ResolveUDPAddr("udp", *to); err == nil {
			r.udp.WriteToUDP(buffer[:n], addr)
		}
		r.mu.Lock()
		if len(r.packets) < packetsKept {
			r.packets = append(r.packets, slices.Clone(buffer[:n]))
		}
		r.mu.Unlock()
	}
}

// seen answers what was sent to the node so far.
func (r *relay) seen() (streams, packets [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.streams {
		streams = append(streams, slices.Clone(s))
	}
	return streams, slices.Clone(r.packets)
}

// tapped is the real network, where the relay learns the node's port.
type tapped struct {
	transport.Network
	relay *relay
}

func (n tapped) Listen(ctx context.Context, bind string, opts transport.Options) (transport.Endpoint, error) {
	e, err := n.Network.Listen(ctx, bind, opts)
	if err == nil {
		addr := e.Addr()
		n.relay.to.Store(&addr)
	}
	return e, err
}

// outpost is a node behind a relay.
type outpost struct {
	*holdfast.Cluster
	relay *relay
	log   *tally
}

// real is where the node listens.
func (o *outpost) real() string { return *o.relay.to.Load() }

// outposts opens nodes that reach each other through their relays alone.
func outposts(t testing.TB, n int, change func(*holdfast.Config)) []*outpost {
	t.Helper()
	list := make([]*outpost, n)
	var join []string
	for i := range list {
		list[i] = &outpost{relay: newRelay(t), log: &tally{}}
		join = append(join, list[i].relay.addr())
	}
	clusters := make([]*holdfast.Cluster, n)
	t.Cleanup(func() { // at once: one that is left behind waits for those that went
		var closing sync.WaitGroup
		for _, c := range clusters {
			if c != nil {
				closing.Go(func() { c.Close() })
			}
		}
		closing.Wait()
	})
	for i, o := range list {
		cfg := holdfast.Config{Advertise: o.relay.addr(), Join: join, Bootstrap: n, Logger: slog.New(o.log)}
		if change != nil {
			change(&cfg)
		}
		c, err := holdfast.Open(env.With(t.Context(), env.Env{Network: tapped{transport.TCP(), o.relay}}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		o.Cluster, clusters[i] = c, c
	}
	allReady(t, clusters)
	return list
}

// tally is a logger that counts what an operator would see, and keeps some of it.
type tally struct {
	mu    sync.Mutex
	lines int
	texts []string
}

func (l *tally) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *tally) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *tally) WithGroup(string) slog.Handler                    { return l }

func (l *tally) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	if len(l.texts) < 1000 {
		l.texts = append(l.texts, text)
	}
	return nil
}

// count answers how many lines there were, and how many of those kept contain text.
func (l *tally) count(text string) (lines, found int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.texts {
		if strings.Contains(line, text) {
			found++
		}
	}
	return l.lines, found
}
