package membership

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/holdfast-go/holdfast/transport"
)

// garbage yields messages of memberlist's form with random content, with and
// without the right label.
func garbage(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(200))
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	if len(b) > 0 {
		b[0] = byte(r.UintN(14))
	}
	if len(b) > 4 && r.UintN(2) == 0 {
		copy(b[1:], []byte{0x81, 0xa5, 0xdf, 0xdd}) // msgpack maps and arrays
	}
	if r.UintN(4) > 0 {
		b, _ = memberlist.AddLabelHeaderToPacket(b, "orders")
	}
	return b
}

func TestStrangersCannotHarmAMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		stranger, err := f.network.Listen(t.Context(), "10.0.0.66:1", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 3000 {
			if err := stranger.WritePacket(garbage(r), "10.0.0.1:7643"); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		for range 300 {
			conn, err := stranger.Dial(t.Context(), "10.0.0.1:7643", transport.KindGossip)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(garbage(r))
			_ = conn.Close()
			time.Sleep(time.Millisecond)
		}
		// Nothing was lost, and nobody joined who is not one of us.
		together(t, 20*time.Second, a, b, c)
		for _, m := range []*peer{a, b, c} {
			if n := len(m.Members()); n != 3 {
				t.Errorf("%d members, want 3", n)
			}
		}
		if n := a.log.Count("level=WARN"); n > 200 {
			t.Errorf("strangers made the node log %d lines", n)
		}
	})
}

func TestIdleStreamsOfStrangersAreBoundedAndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "10.0.0.1:7643", nil)
		stranger, err := f.network.Listen(t.Context(), "10.0.0.66:1", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		flood := func() {
			for range 4 * hostStreamsMax {
				conn, err := stranger.Dial(t.Context(), "10.0.0.1:7643", transport.KindGossip)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
			}
		}
		flood()
		synctest.Wait()
		if n := a.streams(); n > hostStreamsMax {
			t.Errorf("%d streams are open, want at most %d", n, hostStreamsMax)
		}
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1")
		together(t, time.Second, a, b)
		flood()
		time.Sleep(headLimit)
		synctest.Wait()
		if n := a.streams(); n > 0 {
			t.Errorf("%d streams are open that never said a word", n)
		}
	})
}

// Before, each address of a host was one more host: a machine has all addresses of an IPv6 network of 64 bits.
func TestIdleStreamsOfOneHostWithManyAddressesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a", 1, "[fd00::1]:7643", nil)
		for address := range 4 {
			stranger, err := f.network.Listen(t.Context(), fmt.Sprintf("[fd00:0:0:66::%d]:1", address+1), transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			for range hostStreamsMax {
				conn, err := stranger.Dial(t.Context(), "[fd00::1]:7643", transport.KindGossip)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
		}
		synctest.Wait()
		if n := a.streams(); n > hostStreamsMax {
			t.Errorf("%d streams are open, want at most %d", n, hostStreamsMax)
		}
	})
}

// streams counts the open ones.
func (m *peer) streams() int {
	c := m.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

func TestStreamEndsAtItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		listen := func(addr string) transport.Endpoint {
			e, err := network.Listen(t.Context(), addr, transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		server, client := listen("10.0.0.1:1"), listen("10.0.0.2:1")
		defer server.Close()
		defer client.Close()
		c := newCarrier(server, nil, 0, validator{"orders", false}, false, newLogFilter(slog.New(slog.DiscardHandler)))
		conn, err := client.Dial(t.Context(), "10.0.0.1:1", transport.KindGossip)
		if err != nil {
			t.Fatal(err)
		}
		head := append(label("orders"), kindPushPull, 0x81, 0xa5, 'N', 'o', 'd', 'e', 's', 100)
		go func() {
			_, err := conn.Write(head)
			for block := make([]byte, 1<<16); err == nil; {
				_, err = conn.Write(block)
			}
		}()
		s := <-c.StreamCh()
		n, err := io.Copy(io.Discard, s)
		if want := int64(len(head) + 100*stateBytesMax); n != want || err != io.ErrUnexpectedEOF {
			t.Errorf("read %d bytes, %v; want %d and an error", n, err, want)
		}
		_ = s.Close()
		_ = conn.Close()
		if err := c.Shutdown(); err != nil {
			t.Error(err)
		}
		if _, err := c.DialTimeout("10.0.0.2:1", time.Second); err == nil {
			t.Error("dialed after Shutdown")
		}
		if _, err := c.WriteTo([]byte("x"), "10.0.0.2:1"); err == nil {
			t.Error("wrote after Shutdown")
		}
	})
}

func label(cluster string) []byte {
	return append([]byte{kindLabel, byte(len(cluster))}, cluster...)
}

func TestMembersOverRealSocketsWithSecrets(t *testing.T) {
	t.Parallel()
	secrets := []string{"correct horse battery staple", "an older secret of the fleet"}
	start := func(node string, secrets []string, changed chan struct{}, join ...string) *peer {
		tls, err := transport.FromSecrets("orders", secrets)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := transport.GossipKeys("orders", secrets)
		if err != nil {
			t.Fatal(err)
		}
		endpoint, err := transport.TCP().Listen(context.Background(), "127.0.0.1:0", transport.Options{TLS: tls})
		if err != nil {
			t.Fatal(err)
		}
		return open(t, endpoint, nil, node, 1, func(c *Config) {
			c.Keys = keys
			c.Resolver = nil
			c.OnChange = func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		}, join...)
	}
	changed := make(chan struct{}, 1)
	a := start("a", secrets, changed)
	b := start("b", []string{secrets[1], secrets[0]}, make(chan struct{}, 1), a.endpoint.Addr())
	stranger := start("s", []string{"a guess that is wrong"}, make(chan struct{}, 1), a.endpoint.Addr())
	limit := time.After(20 * time.Second)
	for !a.sees("b", Alive) || !b.sees("a", Alive) {
		select {
		case <-changed:
			<-b.Tried()
		case <-limit:
			t.Fatal("two nodes with a common secret did not meet")
		}
	}
	<-stranger.Tried()
	if stranger.JoinError() == nil || len(stranger.Members()) != 1 || len(a.Members()) != 2 {
		t.Error("a node with another secret got in")
	}
	if err := b.Send(t.Context(), "a", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-a.messages:
		if got != "b: hello" {
			t.Errorf("a got %q", got)
		}
	case <-limit:
		t.Fatal("the message did not arrive")
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for !a.sees("b", Left) {
		select {
		case <-changed:
		case <-limit:
			t.Fatal("a did not hear that b left")
		}
	}
}

// The system makes connections for a process that is stopped. It was taken for one that is gone, and a recovery
// went on beside a group that lives.
func TestAProcessThatHangsHasAnsweredAndAHostBehindACutHasNot(t *testing.T) {
	t.Parallel()
	security, _, err := transport.Security("orders", []string{"a secret of the fleet that nobody guesses"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := transport.Options{TLS: security, Logger: slog.New(slog.DiscardHandler)}
	answered := func(network transport.Network, bind, addr string) bool {
		e, err := network.Listen(t.Context(), bind, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		c := newCarrier(e, nil, 0, validator{"orders", true}, false, newLogFilter(opts.Logger))
		defer c.Shutdown()
		if _, err := c.DialTimeout(addr, 2*time.Second); err == nil {
			t.Errorf("dialed %s", addr)
		}
		return c.answered(addr)
	}
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	if !answered(transport.TCP(), "127.0.0.1:0", hangs.Addr().String()) {
		t.Error("a process that accepts no connection has not answered")
	}
	memory := transport.NewMemory(1)
	memory.Cut("*", "*")
	if answered(memory, "10.0.0.1:1", "10.0.0.2:1") {
		t.Error("a host behind a cut has answered")
	}
}
