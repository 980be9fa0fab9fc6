package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

const (
	bindAttempts  = 10 // for port 0: a port that is free for TCP may be in use for UDP
	packetRead    = 64 << 10
	receiveBuffer = 2 << 20 // of UDP; halved until the system agrees
	resolveLimit  = time.Second
)

// TCP is the real network: TCP and UDP sockets on one port number, IPv4 and IPv6.
func TCP() Network { return tcpNetwork{} }

type tcpNetwork struct{}

// Listen binds TCP first, then UDP on the same number.
func (tcpNetwork) Listen(ctx context.Context, bind string, opts Options) (Endpoint, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(bind)
	if err != nil {
		return nil, fmt.Errorf("%w: bind address %q: %w", ErrInvalid, bind, err)
	}
	attempts := 1
	if port == "0" || port == "" {
		attempts = bindAttempts
	}
	for {
		w, err := bindBoth(ctx, bind)
		if err == nil {
			return newEndpoint(w, opts.withDefaults()), nil
		}
		if attempts--; attempts == 0 || ctx.Err() != nil {
			return nil, fmt.Errorf("holdfast: listening on %s: %w", bind, err)
		}
	}
}

// sockets are the wire of the real network.
type sockets struct {
	tcp    *net.TCPListener
	udp    *net.UDPConn
	spares spares
	buffer []byte // of ReadPacket
}

func bindBoth(ctx context.Context, bind string) (*sockets, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive()}
	l, err := config.Listen(ctx, "tcp", bind)
	if err != nil {
		return nil, err
	}
	tcp := l.(*net.TCPListener)
	at := tcp.Addr().(*net.TCPAddr)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err != nil {
		tcp.Close()
		return nil, err
	}
	for size := receiveBuffer; size > 0 && udp.SetReadBuffer(size) != nil; size /= 2 {
	}
	return &sockets{tcp: tcp, udp: udp, spares: setAside(), buffer: make([]byte, packetRead)}, nil
}

// keepAlive makes the system end a connection after 35 s without a sign of the other machine.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}
}

// Addr is the address that TCP and UDP share.
func (s *sockets) Addr() string { return s.tcp.Addr().String() }

// Accept takes the next TCP connection.
func (s *sockets) Accept() (net.Conn, error) {
	c, err := s.tcp.Accept()
	if !fdreserve.Lacking(err) {
		return c, err
	}
	// The system needs a descriptor even before there is a connection. A reserved one, freed now,
	// would be in use elsewhere by then.
	if err := s.awaitConnection(); err != nil {
		return nil, err
	}
	return s.spares.accepted.with(s.tcp.Accept)
}

// Dial opens a TCP connection.
func (s *sockets) Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error) {
	set := s.spares.dialed
	if kind == KindRaft {
		set = s.spares.raft
	}
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	return set.with(func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
}

// ReadPacket reads the next datagram. The buffer is larger than any datagram: none is cut short.
func (s *sockets) ReadPacket() (Packet, error) {
	n, from, err := s.udp.ReadFromUDPAddrPort(s.buffer)
	if err != nil {
		return Packet{}, err
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	return Packet{
		Data: append([]byte(nil), s.buffer[:n]...),
		From: net.UDPAddrFromAddrPort(from),
		At:   time.Now(),
	}, nil
}

// WritePacket sends one datagram, after a lookup of at most a second if addr has a name.
func (s *sockets) WritePacket(ctx context.Context, b []byte, addr string) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		if to, err = lookUp(ctx, addr); err != nil {
			return err
		}
	}
	_, err = s.udp.WriteToUDPAddrPort(b, to)
	return err
}

func lookUp(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(ips) == 0 {
		return netip.AddrPort{}, fmt.Errorf("holdfast: %s has no address", host)
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), nil
}

// Close frees the port.
func (s *sockets) Close() error {
	s.spares.Close()
	return errors.Join(s.tcp.Close(), s.udp.Close())
}
