package transport

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/holdfast-go/holdfast/internal/fdreserve"
)

// Dialer is the network of a node that only dials: its endpoints have no port, and take no
// connection and no packet.
func Dialer() Network { return dialNetwork{} }

type dialNetwork struct{}

// Listen makes an endpoint. bind does not matter.
func (dialNetwork) Listen(_ context.Context, _ string, opts Options) (Endpoint, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	d := &dialing{spares: fdreserve.NewSet(1, fdreserve.Null), closed: make(chan struct{})}
	return newEndpoint(d, opts.withDefaults()), nil
}

// dialing is a wire that only dials.
type dialing struct {
	spares *fdreserve.Set
	closed chan struct{}
	once   sync.Once
}

// Addr is "": nobody reaches it.
func (d *dialing) Addr() string { return "" }

// Accept waits for Close.
func (d *dialing) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

// ReadPacket waits for Close.
func (d *dialing) ReadPacket() (Packet, error) {
	<-d.closed
	return Packet{}, net.ErrClosed
}

// Dial opens a TCP connection.
func (d *dialing) Dial(ctx context.Context, addr string, _ Kind) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	return with(d.spares, func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
}

// WritePacket fails.
func (d *dialing) WritePacket(context.Context, []byte, string) error { return errors.ErrUnsupported }

// Close ends Accept and ReadPacket.
func (d *dialing) Close() error {
	d.once.Do(func() {
		close(d.closed)
		d.spares.Close()
	})
	return nil
}
