package membership

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/holdfast-go/holdfast/internal/tally"
	"github.com/holdfast-go/holdfast/transport"
)

const (
	dialLimit      = 3 * time.Second // with TLS
	streamLimit    = 10 * time.Second
	headLimit      = 3 * time.Second // of the head of an incoming stream
	hostStreamsMax = 32              // incoming streams of one host; the endpoint bounds those of all hosts
	streamBytesMax = 8 << 20         // of one stream
	streamFree     = 64 << 10        // bytes of each stream that are not counted
	bytesMax       = 32 << 20        // counted bytes of all streams
)

var (
	errCarrierClosed = errors.New("holdfast: gossip is closed")
	errMute          = errors.New("holdfast: a gossip packet, but this node accepts gossip over connections alone")
)

// carrier is memberlist's transport over the endpoint, which it never closes. It refuses, counts
// and reports packets and streams that must not reach memberlist.
type carrier struct {
	endpoint  transport.Endpoint
	stop      func() // takes no further stream and packet
	ip        net.IP // advertised
	port      int
	validator validator
	mute      bool // streams alone: no packet is sent or accepted
	log       *logFilter
	refused   atomic.Uint64 // packets and streams
	traffic   tally.Traffic

	packets chan *memberlist.Packet
	streams chan net.Conn
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	open  map[*stream]struct{} // nil after Shutdown
	hosts map[string][]*stream // open incoming streams by host, oldest first
	bytes int                  // counted bytes of all streams

	answers map[string]bool // addresses at which something answered, addrsMax at most
}

var _ memberlist.NodeAwareTransport = (*carrier)(nil)

func newCarrier(endpoint transport.Endpoint, ip net.IP, port int, check validator, mute bool, log *logFilter) *carrier {
	c := &carrier{
		mute:      mute,
		endpoint:  endpoint,
		ip:        ip,
		port:      port,
		validator: check,
		log:       log,
		packets:   make(chan *memberlist.Packet),
		streams:   make(chan net.Conn),
		open:      make(map[*stream]struct{}),
		hosts:     make(map[string][]*stream),
		answers:   make(map[string]bool),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	stopStreams, stopPackets := endpoint.Handle(transport.KindGossip, c.accept), endpoint.Receive(c.receive)
	c.stop = func() {
		stopStreams()
		stopPackets()
	}
	return c
}

func (c *carrier) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return c.ip, c.port, nil }

func (c *carrier) PacketCh() <-chan *memberlist.Packet { return c.packets }

func (c *carrier) StreamCh() <-chan net.Conn { return c.streams }

func (c *carrier) WriteTo(b []byte, addr string) (time.Time, error) {
	return c.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress hides errors of the network. Memberlist abandons a probe that it cannot send,
// without suspecting the member; a lost packet must count as a probe without an answer.
func (c *carrier) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	if c.ctx.Err() != nil {
		return time.Time{}, errCarrierClosed
	}
	if !c.mute {
		c.traffic.Sent.Add(uint64(len(b)))
		_ = c.endpoint.WritePacket(b, addr.Addr)
	}
	return time.Now(), nil
}

func (c *carrier) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return c.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a gossip stream. The stream has a deadline from the start: memberlist
// sets one late, and on some streams none.
func (c *carrier) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, min(timeout, dialLimit))
	defer cancel()
	conn, err := c.endpoint.Dial(ctx, addr.Addr, transport.KindGossip)
	c.note(addr.Addr, err)
	if err != nil {
		return nil, err
	}
	s := c.track(conn, false)
	if s == nil {
		return nil, errCarrierClosed
	}
	_ = s.SetDeadline(time.Now().Add(streamLimit))
	return s, nil
}

// note notes whether something answered at an address, be it to refuse this node.
func (c *carrier) note(addr string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && silent(err):
		delete(c.answers, addr)
	case len(c.answers) < addrsMax:
		c.answers[addr] = true
	}
}

// silent reports whether the error of a dial says that no connection was made. A process that hangs is not
// silent: its system makes connections, and the handshake takes too long.
func silent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || transport.Refused(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrInvalid)
}

// answered reports whether something answered at an address when it was dialed last.
func (c *carrier) answered(addr string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[addr]
}

// Shutdown closes every stream and waits for the carrier's goroutines.
func (c *carrier) Shutdown() error {
	c.cancel()
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for s := range open {
		c.wg.Go(func() { _ = s.Conn.Close() }) // TLS may take 5 s
	}
	c.stop()
	c.wg.Wait()
	return nil
}

func (c *carrier) accept(conn net.Conn) {
	s := c.track(conn, true)
	if s == nil {
		return
	}
	select {
	case c.streams <- s:
	case <-c.ctx.Done():
		_ = s.Close()
	}
}

func (c *carrier) receive(p transport.Packet) {
	c.traffic.Received.Add(uint64(len(p.Data)))
	err := c.validator.packet(p.Data)
	if c.mute {
		err = errMute
	}
	if err != nil {
		c.refuse(p.From, err)
		return
	}
	select {
	case c.packets <- &memberlist.Packet{Buf: p.Data, From: p.From, Timestamp: p.At}:
	case <-c.ctx.Done():
	}
}

func (c *carrier) refuse(from net.Addr, err error) {
	c.refused.Add(1)
	c.log.drop("refused traffic from outside this fleet", "from", from.String(), "error", err)
}
