package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second // of tests in real time: long, since it only ends failing ones

var errTest = errors.New("test")

// onEachNetwork runs a test of the conformance suite over every network and with TLS.
func onEachNetwork(t *testing.T, test func(t *testing.T, network Network, opts Options)) {
	t.Helper()
	secure := func(t *testing.T) Options { return secretOptions(t, "fleet", "a secret of the fleet") }
	plain := func(*testing.T) Options { return Options{} }
	for _, flavor := range []struct {
		name    string
		network func() Network
		opts    func(*testing.T) Options
	}{
		{"TCP", TCP, plain},
		{"TCP with secrets", TCP, secure},
		{"Memory", func() Network { return NewMemory(1) }, plain},
		{"Memory with secrets", func() Network { return NewMemory(1) }, secure},
	} {
		t.Run(flavor.name, func(t *testing.T) {
			t.Parallel()
			test(t, flavor.network(), flavor.opts(t))
		})
	}
}

func secretOptions(t *testing.T, cluster string, secrets ...string) Options {
	t.Helper()
	config, err := FromSecrets(cluster, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return Options{TLS: config}
}

func listen(t *testing.T, network Network, opts Options) Endpoint {
	t.Helper()
	return listenAt(t, network, "127.0.0.1:0", opts)
}

func listenAt(t *testing.T, network Network, bind string, opts Options) Endpoint {
	t.Helper()
	e, err := network.Listen(t.Context(), bind, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// connect returns both ends of a connection from a to b.
func connect(t *testing.T, a, b Endpoint, kind Kind) (dialed, accepted net.Conn) {
	t.Helper()
	conns, _ := arrivals(b, kind)
	dialed, err := a.Dial(t.Context(), b.Addr(), kind)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case accepted = <-conns:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	return dialed, accepted
}

// arrivals yields the connections that come for the kind until stop.
func arrivals(e Endpoint, kind Kind) (conns <-chan net.Conn, stop func()) {
	came := make(chan net.Conn, 128)
	return came, e.Handle(kind, func(c net.Conn) { came <- c })
}

// echo answers everything that comes for the kind until the endpoint closes.
func echo(e Endpoint, kind Kind) (stop func()) {
	return e.Handle(kind, func(c net.Conn) {
		defer c.Close()
		io.Copy(c, c)
	})
}

// wantEcho dials e from a and expects its words back.
func wantEcho(t *testing.T, a, e Endpoint, kind Kind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := a.Dial(ctx, e.Addr(), kind)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	const words = "are you there"
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(words))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != words {
		t.Fatalf("echo answered %q, %v", got, err)
	}
}

// stranger opens a connection that has said nothing yet.
func stranger(t *testing.T, from, to Endpoint) net.Conn {
	t.Helper()
	c, err := from.(*endpoint).wire.Dial(t.Context(), to.Addr(), KindRaft)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantRefused expects the other side to end the connection without a byte of data.
func wantRefused(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Fatalf("the connection lives: read %d bytes, %v", n, err)
	}
}

// openConns counts what Close of the endpoint would have to end.
func openConns(e Endpoint) int {
	e.(*endpoint).mu.Lock()
	defer e.(*endpoint).mu.Unlock()
	return len(e.(*endpoint).conns)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
