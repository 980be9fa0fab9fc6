package transport

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestPacketsAndStreamsShareThePortNumber(t *testing.T) {
	t.Parallel()
	for _, bind := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "0.0.0.0:0", "[::]:0", ":0"} {
		t.Run(bind, func(t *testing.T) {
			t.Parallel()
			e, err := TCP().Listen(t.Context(), bind, Options{})
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Skip("no IPv6 here")
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			host, port, err := net.SplitHostPort(e.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if ip := net.ParseIP(host); ip.IsUnspecified() {
				host = "127.0.0.1"
			}
			to := net.JoinHostPort(host, port)
			a := listenAt(t, TCP(), net.JoinHostPort(host, "0"), Options{})
			echo(e, KindRaft)
			wantEcho(t, a, at{e, to}, KindRaft)
			p := wantPacket(t, a, at{e, to}, []byte("x"))
			if p.From.String() != a.Addr() {
				t.Errorf("from %v, sent by %s", p.From, a.Addr())
			}
			wantPacket(t, e, a, []byte("back from a socket that is perhaps for both families"))
		})
	}
}

// at is an endpoint under another of its addresses.
type at struct {
	Endpoint
	addr string
}

func (a at) Addr() string { return a.addr }

func TestPacketsGoToNamesToo(t *testing.T) {
	t.Parallel()
	a, b := listen(t, TCP(), Options{}), listen(t, TCP(), Options{})
	_, port, _ := net.SplitHostPort(b.Addr())
	if err := a.WritePacket([]byte("x"), net.JoinHostPort("localhost", port)); err != nil {
		t.Fatal(err)
	}
	if err := a.WritePacket([]byte("x"), net.JoinHostPort("no-such-name.invalid", port)); err == nil {
		t.Error("a name that does not exist was sent to")
	}
}

func TestTakenPortIsAnErrorThatLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	e := listenOnFixedPort(t, TCP(), Options{})
	if _, err := TCP().Listen(t.Context(), e.Addr(), Options{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second endpoint on %s: %v", e.Addr(), err)
	}
	addr := e.Addr()
	e.Close()
	udp, err := net.ListenPacket("udp", addr) // now only UDP's number is taken
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TCP().Listen(t.Context(), addr, Options{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("endpoint beside a UDP socket: %v", err)
	}
	udp.Close()
	listenAt(t, TCP(), addr, Options{}) // so TCP's was given back
}

func TestNonsensicalOptionsAndAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, network := range []Network{TCP(), NewMemory(1)} {
		for _, opts := range []Options{
			{HandshakeTimeout: -1}, {PrefaceTimeout: -time.Second}, {StrangersMax: -1}, {ConnsMax: -1},
			{HostMax: -1},
		} {
			if _, err := network.Listen(t.Context(), "127.0.0.1:0", opts); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
		for _, bind := range []string{"", "127.0.0.1", "[::1", "1:2:3"} {
			if _, err := network.Listen(t.Context(), bind, Options{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("bind %q: %v", bind, err)
			}
		}
		if _, err := network.Listen(t.Context(), "127.0.0.1:99999", Options{}); err == nil {
			t.Error("port 99999 was bound")
		}
	}
}
