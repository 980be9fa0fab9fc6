package transport

import (
	"context"
	"errors"
	"net"
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
	return newEndpoint(&dialing{spares: newReserve(1)}, opts.withDefaults()), nil
}

// dialing is a wire that only dials.
type dialing struct {
	spares *reserve
}

// Addr is "": nobody reaches it.
func (d *dialing) Addr() string { return "" }

// Dial opens a TCP connection.
func (d *dialing) Dial(ctx context.Context, addr string, _ Kind) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	return d.spares.with(func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
}

// WritePacket fails.
func (d *dialing) WritePacket(context.Context, []byte, string) error { return errors.ErrUnsupported }

// Close gives the spare descriptor back.
func (d *dialing) Close() error {
	d.spares.Close()
	return nil
}
