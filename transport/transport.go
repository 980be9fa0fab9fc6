package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Kind says which part of a node a connection is for.
type Kind uint8

// The kinds; their numbers are part of the wire format.
const (
	KindRaft   Kind = 1 // replica to replica
	KindGossip Kind = 2 // member to member, the streams of it
	KindHTTP   Kind = 3 // HTTP/1 or HTTP/2 with prior knowledge
	KindProbe  Kind = 4 // to ask who is there: the other side says it and closes
)

// String names the kind for logs.
func (k Kind) String() string {
	switch k {
	case KindRaft:
		return "raft"
	case KindGossip:
		return "gossip"
	case KindHTTP:
		return "http"
	case KindProbe:
		return "probe"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (k Kind) valid() bool { return k >= KindRaft && k <= KindProbe }

// PacketMax is the size in bytes of the largest packet: what fits into one UDP datagram over IPv4.
const PacketMax = 65507

var (
	// ErrClosed answers every call on an endpoint that was closed; it wraps net.ErrClosed.
	ErrClosed = fmt.Errorf("holdfast: transport endpoint: %w", net.ErrClosed)
	// ErrPacketTooLarge answers WritePacket with more than PacketMax bytes; nothing was sent.
	ErrPacketTooLarge = errors.New("holdfast: packet too large")
	// ErrInvalid answers options, addresses and kinds that make no sense; the message names the
	// field.
	ErrInvalid = errors.New("holdfast: invalid")
)

// Network makes endpoints: TCP for real ones, Memory for tests.
type Network interface {
	// Listen opens an endpoint at bind ("host:port"; port 0 chooses one that is free for TCP and
	// UDP). ctx bounds the call, not the endpoint's life.
	Listen(ctx context.Context, bind string, opts Options) (Endpoint, error)
}

// Endpoint is a node's place on the network. Every method may be called at any time from any
// goroutine.
type Endpoint interface {
	// Addr is the bound "host:port"; TCP and UDP share the number.
	Addr() string
	// Dial connects to the endpoint at addr. TLS is done and the preface sent when it returns;
	// whether the other side wants the connection shows only when it is used. It gives up when ctx
	// ends, when the endpoint closes, or after ten seconds. ctx has no influence on the connection
	// afterwards.
	Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error)
	// Listener yields the connections of that kind, after TLS and preface. There is one per kind: a
	// second call returns the same one until it is closed, then a new one. Connections of a kind
	// that nobody listens for are closed. Closing it stops that kind alone; accepted connections
	// live on.
	Listener(kind Kind) net.Listener
	// WritePacket sends b as one packet, best effort: nil does not say that it arrived. It does not
	// keep b.
	WritePacket(b []byte, addr string) error
	// Packets yields what WritePacket of others sent here. Buffered: when the reader is slow,
	// packets are dropped. Closed by Close.
	Packets() <-chan Packet
	// Close ends the endpoint and all its connections, accepted and dialed, and returns when
	// nothing of it is left. Further calls, also concurrent ones, wait for the first and do
	// nothing.
	Close() error
}

// Packet is one datagram. Its Data belongs to the receiver.
type Packet struct {
	Data []byte
	From net.Addr
	At   time.Time // when it arrived
}

// Options of an endpoint. The zero value is useful.
type Options struct {
	// TLS makes every connection mutual TLS 1.3, whatever its ClientAuth; see FromSecrets. An own
	// configuration must have a certificate for both roles, which names the host that the node is
	// dialed at, unless ServerName is set. Who dials must show one that ClientCAs signed, who is
	// dialed one that RootCAs signed; one of the two that is nil is the same as the other.
	// VerifyConnection or VerifyPeerCertificate may verify instead: of who dials with ClientAuth
	// RequireAnyClientCert, of who is dialed with InsecureSkipVerify. Default: no TLS.
	TLS *tls.Config
	// Logger hears about refused connections and certificates. Default: silence.
	Logger *slog.Logger
	// HandshakeTimeout bounds TLS of an accepted connection. Default 5s.
	HandshakeTimeout time.Duration
	// PrefaceTimeout bounds the wait for the preface of an accepted connection. Default 3s.
	PrefaceTimeout time.Duration
	// StrangersMax bounds the connections that have not finished TLS and preface. Beyond it the
	// oldest one of the host that has the most is closed. Default 256.
	StrangersMax int
	// ConnsMax bounds the accepted connections of each kind, HostMax those of them that come from
	// one host. Beyond HostMax the one of that host is closed that was silent the longest, beyond
	// ConnsMax that of the host that has the most. Default 2048 and 512.
	ConnsMax, HostMax int
	// Backlog bounds, per kind, the connections that wait for Accept. Beyond it the oldest one of
	// the host that has the most of them is closed. Default 128.
	Backlog int
}

// withDefaults returns a copy with every zero field filled.
func (o Options) withDefaults() Options {
	o.TLS = o.TLS.Clone() // its owner may go on to change it; the clone of nil is nil
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 5 * time.Second
	}
	if o.PrefaceTimeout == 0 {
		o.PrefaceTimeout = 3 * time.Second
	}
	if o.StrangersMax == 0 {
		o.StrangersMax = 256
	}
	if o.ConnsMax == 0 {
		o.ConnsMax = 2048
	}
	if o.HostMax == 0 {
		o.HostMax = 512
	}
	if o.Backlog == 0 {
		o.Backlog = 128
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.HandshakeTimeout < 0:
		return fmt.Errorf("%w: Options.HandshakeTimeout is negative", ErrInvalid)
	case o.PrefaceTimeout < 0:
		return fmt.Errorf("%w: Options.PrefaceTimeout is negative", ErrInvalid)
	case o.StrangersMax < 0:
		return fmt.Errorf("%w: Options.StrangersMax is negative", ErrInvalid)
	case o.ConnsMax < 0:
		return fmt.Errorf("%w: Options.ConnsMax is negative", ErrInvalid)
	case o.HostMax < 0:
		return fmt.Errorf("%w: Options.HostMax is negative", ErrInvalid)
	case o.Backlog < 0:
		return fmt.Errorf("%w: Options.Backlog is negative", ErrInvalid)
	case o.TLS != nil:
		return validateTLS(o.TLS)
	}
	return nil
}
