package transport

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// memoryWire is the wire of one endpoint of a Memory.
type memoryWire struct {
	net     *Memory
	at      place
	accepts chan net.Conn
	packets chan Packet
	late    lateQueue
	done    chan struct{}
	once    sync.Once
}

func newMemoryWire(m *Memory, at place) *memoryWire {
	w := &memoryWire{
		net:     m,
		at:      at,
		accepts: make(chan net.Conn, memoryBacklog),
		packets: make(chan Packet, packetsBuffer),
		done:    make(chan struct{}),
	}
	w.late.deliver = w.arrive
	return w
}

// Addr is the bound address.
func (w *memoryWire) Addr() string { return w.at.addr }

// Accept waits for a connection.
func (w *memoryWire) Accept() (net.Conn, error) {
	select {
	case c := <-w.accepts:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

// ReadPacket waits for a packet.
func (w *memoryWire) ReadPacket() (Packet, error) {
	select {
	case p := <-w.packets:
		return p, nil
	case <-w.done:
		return Packet{}, net.ErrClosed
	}
}

// WritePacket sends b to the endpoint at addr, if there is one and the link's faults allow it.
func (w *memoryWire) WritePacket(_ context.Context, b []byte, addr string) error {
	host, port, err := splitAddr(addr)
	if err != nil {
		return err
	}
	target := w.net.wire(placeOf(host, port).addr)
	if target == nil {
		return nil
	}
	delays := []time.Duration{0}
	if faults := w.net.rules.Load().of(w.at, target.at, KindGossip); faults != (Faults{}) {
		delays = w.net.link(w.at, target.at).packet(faults)
		if faults.loses(len(b)) {
			delays = nil
		}
	}
	for _, delay := range delays {
		p := Packet{Data: slices.Clone(b), From: w.packetAddr()}
		if delay == 0 {
			target.arrive(p)
			continue
		}
		target.late.add(p, time.Now().Add(delay))
	}
	return nil
}

// arrive gives a packet to the endpoint, which drops it while its buffer is full.
func (w *memoryWire) arrive(p Packet) {
	p.At = time.Now()
	select {
	case w.packets <- p:
	default:
	}
}

// Dial opens a stream to the endpoint at addr. While either direction is cut it waits, like a SYN
// without an answer, unless it is refused.
func (w *memoryWire) Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	to := placeOf(host, port)
	if err := w.handshake(ctx, to, kind); err != nil {
		return nil, unmade(to, err)
	}
	s, target := w.open(to, kind)
	if s == nil {
		return nil, refused(to)
	}
	select {
	case target.accepts <- s.accepted: // blocks while too many wait
	case <-target.done:
	case <-ctx.Done():
		s.reset()
		return nil, unmade(to, ctx.Err())
	}
	select {
	case <-target.done: // perhaps no Accept follows
		s.reset()
		return nil, refused(to)
	default:
		return s.dialed, nil
	}
}

// open makes a stream if both its endpoints exist.
func (w *memoryWire) open(to place, kind Kind) (*stream, *memoryWire) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	target := w.net.wires[to.addr]
	if target == nil || w.net.wires[w.at.addr] != w {
		return nil, nil
	}
	w.net.dialed++
	local := placeOf(w.at.host, memoryPortLast+1+w.net.dialed%(65535-memoryPortLast))
	s := newStream(w.net, w.at, to, local.addr, kind)
	w.net.streams[s] = struct{}{}
	return s, target
}

// handshake takes a round trip.
func (w *memoryWire) handshake(ctx context.Context, to place, kind Kind) error {
	delay := w.roundTrip(to, kind)
	if w.net.rules.Load().of(w.at, to, kind).Refuse {
		return errRefused
	}
	for {
		there, changed := w.net.cut(w.at, to, kind)
		back, _ := w.net.cut(to, w.at, kind)
		if !there && !back {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if delay == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *memoryWire) roundTrip(to place, kind Kind) time.Duration {
	var total time.Duration
	for _, way := range [][2]place{{w.at, to}, {to, w.at}} {
		faults := w.net.rules.Load().of(way[0], way[1], kind)
		if faults.Delay+faults.Jitter > 0 {
			delay, _ := w.net.link(way[0], way[1]).stream(faults)
			total += delay
		}
	}
	return total
}

// Close frees the address, closes connections that were not accepted and drops late packets.
func (w *memoryWire) Close() error {
	w.once.Do(func() {
		w.net.mu.Lock()
		delete(w.net.wires, w.at.addr)
		w.net.mu.Unlock()
		close(w.done)
		w.late.close()
		for {
			select {
			case c := <-w.accepts:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func refused(to place) error { return unmade(to, errRefused) }

// unmade is the error of a stream that was not made.
func unmade(to place, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: memoryAddr(to.addr), Err: err}
}

// packetAddr is the From of this endpoint's packets.
func (w *memoryWire) packetAddr() net.Addr {
	if ap, err := netip.ParseAddrPort(w.at.addr); err == nil {
		return net.UDPAddrFromAddrPort(ap)
	}
	return address(w.at.addr)
}

// memoryAddr gives IP addresses the type of real ones.
func memoryAddr(addr string) net.Addr {
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		return net.TCPAddrFromAddrPort(ap)
	}
	return address(addr)
}

// address is a host:port as a net.Addr.
type address string

// Network is always "tcp": addresses of both networks look alike.
func (a address) Network() string { return "tcp" }

// String is the host:port.
func (a address) String() string { return string(a) }
