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
	dialLimit      = 3 * time.Second // to connect, TLS included
	streamLimit    = 10 * time.Second
	headLimit      = 3 * time.Second // for the beginning of an incoming stream
	hostStreamsMax = 32              // incoming, of one host; the endpoint bounds those of all
	streamBytesMax = 8 << 20         // read from one stream
	streamFree     = 64 << 10        // of these are not counted
	bytesMax       = 32 << 20        // counted of all streams together
)

var (
	errCarrierClosed = errors.New("holdfast: gossip is closed")
	errMute          = errors.New("holdfast: a gossip packet, where streams alone are trusted")
)

// carrier is memberlist's transport over our endpoint. It uses the endpoint's
// gossip streams and packets and never closes the endpoint itself. What
// memberlist should not see it refuses, counts and reports.
type carrier struct {
	endpoint  transport.Endpoint
	listener  net.Listener
	ip        net.IP // advertised
	port      int
	validator validator
	mute      bool // streams alone: packets are neither sent nor heard
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
	hosts map[string][]*stream // incoming ones that are open, by host, oldest first
	bytes int                  // that all hold, beyond what is free
}

var _ memberlist.NodeAwareTransport = (*carrier)(nil)

func newCarrier(endpoint transport.Endpoint, ip net.IP, port int, check validator, mute bool, log *logFilter) *carrier {
	c := &carrier{
		mute:      mute,
		endpoint:  endpoint,
		listener:  endpoint.Listener(transport.KindGossip),
		ip:        ip,
		port:      port,
		validator: check,
		log:       log,
		packets:   make(chan *memberlist.Packet),
		streams:   make(chan net.Conn),
		open:      make(map[*stream]struct{}),
		hosts:     make(map[string][]*stream),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.accept)
	c.wg.Go(c.receive)
	return c
}

func (c *carrier) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return c.ip, c.port, nil }

func (c *carrier) PacketCh() <-chan *memberlist.Packet { return c.packets }

func (c *carrier) StreamCh() <-chan net.Conn { return c.streams }

func (c *carrier) WriteTo(b []byte, addr string) (time.Time, error) {
	return c.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress hides errors of the network: a probe that cannot be sent must
// count as one that was not answered, and memberlist gives up such a probe
// without suspecting anybody. After Shutdown that is just what we want.
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

// DialAddressTimeout opens a gossip stream. It has a deadline from the start,
// since memberlist writes to it before it sets its own, and to some streams
// sets none.
func (c *carrier) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, min(timeout, dialLimit))
	defer cancel()
	conn, err := c.endpoint.Dial(ctx, addr.Addr, transport.KindGossip)
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

// Shutdown closes every stream and waits for the carrier's goroutines.
func (c *carrier) Shutdown() error {
	c.cancel()
	err := c.listener.Close()
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for s := range open {
		c.wg.Go(func() { _ = s.Conn.Close() }) // TLS waits up to 5 s to say good-bye
	}
	c.wg.Wait()
	return err
}

func (c *carrier) accept() {
	pause := time.Duration(0)
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			if c.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
				continue
			case <-c.ctx.Done():
				return
			}
		}
		pause = 0
		s := c.track(conn, true)
		if s == nil {
			return
		}
		select {
		case c.streams <- s:
		case <-c.ctx.Done():
			_ = s.Close()
			return
		}
	}
}

func (c *carrier) receive() {
	for {
		select {
		case p, ok := <-c.endpoint.Packets():
			if !ok {
				return
			}
			c.traffic.Received.Add(uint64(len(p.Data)))
			err := c.validator.packet(p.Data)
			if c.mute {
				err = errMute
			}
			if err != nil {
				c.refuse(p.From, err)
				continue
			}
			packet := &memberlist.Packet{Buf: p.Data, From: p.From, Timestamp: p.At}
			select {
			case c.packets <- packet:
			case <-c.ctx.Done():
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *carrier) refuse(from net.Addr, err error) {
	c.refused.Add(1)
	c.log.drop("refused what is not of this fleet", "from", from.String(), "error", err)
}
