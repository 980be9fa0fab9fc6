package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Kind is the part of a node that a connection is for.
type Kind uint8

// The kinds; their numbers are part of the wire format.
const (
	KindRaft   Kind = 1 // replica to replica
	KindGossip Kind = 2 // member to member, the streams of it
	KindHTTP   Kind = 3 // HTTP/1 or HTTP/2 with prior knowledge
	KindProbe  Kind = 4 // the accepting node names itself and closes
	KindClient Kind = 5 // client to the replica that serves it
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
	case KindClient:
		return "client"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (k Kind) valid() bool { return k >= KindRaft && k <= KindClient }

// PacketMax is the size in bytes of the largest packet: one UDP datagram over IPv4.
const PacketMax = 65507

var (
	// ErrClosed answers every call on a closed endpoint; it wraps net.ErrClosed.
	ErrClosed = fmt.Errorf("holdfast: transport endpoint: %w", net.ErrClosed)
	// ErrPacketTooLarge answers WritePacket with more than PacketMax bytes; nothing was sent.
	ErrPacketTooLarge = errors.New("holdfast: packet too large")
	// ErrInvalid answers invalid options, addresses and kinds; the message names the field.
	ErrInvalid = errors.New("holdfast: invalid")
)

// Network makes endpoints: TCP for real ones, Memory for tests.
type Network interface {
	// Listen opens an endpoint at bind ("host:port"; port 0 chooses one that is free for TCP and
	// UDP). ctx bounds the call, not the endpoint's life.
	Listen(ctx context.Context, bind string, opts Options) (Endpoint, error)
}

// Endpoint is a node's place on the network. Its methods are safe for concurrent use, also after
// Close.
type Endpoint interface {
	// Addr is the bound "host:port"; TCP and UDP share the number.
	Addr() string
	// Dial connects to the endpoint at addr, does TLS and sends the preface. A refusal by the other
	// side shows only when the connection is used. Dial gives up when ctx ends, when the endpoint
	// closes, or after ten seconds. ctx does not affect the connection afterwards.
	Dial(ctx context.Context, addr string, kind Kind) (net.Conn, error)
	// Handle gives each connection of that kind, after TLS and preface, to handle, on a goroutine of
	// its own. handle closes the connection; it may do so later. A kind has one handler: a second call
	// of Handle takes the place of the first. A connection of a kind without a handler waits a second
	// for one, and is closed. stop takes the handler away and returns when its last call has returned:
	// end their connections first. Close of the endpoint takes every handler away, and waits for none.
	Handle(kind Kind, handle func(net.Conn)) (stop func())
	// WritePacket sends b as one packet, best effort: nil does not say that it arrived. It does not
	// keep b.
	WritePacket(b []byte, addr string) error
	// Receive gives each packet that others sent here to handle, one after the other. While handle is
	// slow, some further packets wait, and the rest are dropped. An endpoint has one such handler: a
	// second call of Receive takes the place of the first, and without one all packets are dropped.
	// stop takes the handler away and returns when its last call has returned; so does Close.
	Receive(handle func(Packet)) (stop func())
	// Close ends the endpoint and all its connections, accepted and dialed, and returns when
	// nothing of it is left. Further calls, also concurrent ones, wait for the first.
	Close() error
}

// Packet is one datagram. Its Data belongs to the receiver.
type Packet struct {
	Data []byte
	From net.Addr
	At   time.Time // of its arrival
}

// Options of an endpoint. The zero value is useful.
type Options struct {
	// TLS makes every connection mutual TLS 1.3, whatever its ClientAuth; see FromSecrets. An own
	// configuration must have a certificate for both roles, which names the host that the node is
	// dialed at, unless ServerName is set. ClientCAs must have signed the certificate of the dialing
	// node, RootCAs that of the dialed one; if one of the two is nil, the other serves for both.
	// VerifyConnection or VerifyPeerCertificate may verify instead: the dialing node with ClientAuth
	// RequireAnyClientCert, the dialed one with InsecureSkipVerify. Default: no TLS.
	TLS *tls.Config
	// Logger receives refusals of connections and certificates. Default: discards.
	Logger *slog.Logger
	// HandshakeTimeout bounds TLS of an accepted connection. Default 5s.
	HandshakeTimeout time.Duration
	// PrefaceTimeout bounds the wait for the preface of an accepted connection. Default 3s.
	PrefaceTimeout time.Duration
	// StrangersMax bounds the connections without a complete preface. One more closes the oldest of
	// the host that has the most. Default 256.
	StrangersMax int
	// ConnsMax bounds the accepted connections of each kind, HostMax those of one host among them, but for
	// clients.
	// One more closes the connection that was silent the longest, beyond HostMax of that host,
	// beyond ConnsMax of the host that has the most. Default 2048 and 512.
	ConnsMax, HostMax int
}

// withDefaults returns a copy with every zero field filled.
func (o Options) withDefaults() Options {
	o.TLS = o.TLS.Clone() // the user may change the original; the clone of nil is nil
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 5*time.Second)
	o.PrefaceTimeout = cmp.Or(o.PrefaceTimeout, 3*time.Second)
	o.StrangersMax = cmp.Or(o.StrangersMax, 256)
	o.ConnsMax, o.HostMax = cmp.Or(o.ConnsMax, 2048), cmp.Or(o.HostMax, 512)
	return o
}

func (o Options) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"HandshakeTimeout", int64(o.HandshakeTimeout)}, {"PrefaceTimeout", int64(o.PrefaceTimeout)},
		{"StrangersMax", int64(o.StrangersMax)}, {"ConnsMax", int64(o.ConnsMax)}, {"HostMax", int64(o.HostMax)},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: Options.%s is negative", ErrInvalid, f.name)
		}
	}
	if o.TLS == nil {
		return nil
	}
	return validateTLS(o.TLS)
}
