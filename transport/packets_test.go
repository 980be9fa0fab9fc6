package transport

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// packetsOf yields the packets that come to an endpoint until stop.
func packetsOf(e Endpoint) (packets <-chan Packet, stop func()) {
	came := make(chan Packet, packetsBuffer)
	return came, e.Receive(func(p Packet) {
		select {
		case came <- p:
		default: // the test reads no more
		}
	})
}

// wantPacket sends until it arrives: a real network may lose packets, loopback included.
func wantPacket(t *testing.T, from, to Endpoint, data []byte) Packet {
	t.Helper()
	deadline := time.After(patience)
	packets, stop := packetsOf(to)
	defer stop()
	for {
		if err := from.WritePacket(data, to.Addr()); err != nil {
			t.Fatal(err)
		}
		select {
		case p := <-packets:
			if !bytes.Equal(p.Data, data) {
				t.Fatalf("got %d other bytes", len(p.Data))
			}
			return p
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("no packet arrives")
		}
	}
}

func TestPacketsArriveWholeWithTheirSender(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a := listen(t, network, opts)
		for _, size := range []int{0, 1, 1400, PacketMax} {
			b := listen(t, network, opts) // its own, since wantPacket may leave doubles behind
			p := wantPacket(t, a, b, bytes.Repeat([]byte{7}, size))
			if p.From.String() != a.Addr() {
				t.Errorf("from %v, sent by %s", p.From, a.Addr())
			}
			if _, ok := p.From.(*net.UDPAddr); !ok {
				t.Errorf("From is a %T", p.From)
			}
			if time.Since(p.At) > patience || time.Since(p.At) < 0 {
				t.Errorf("arrived at %v", p.At)
			}
		}
	})
}

func TestPacketDoesNotKeepItsSendersBuffer(t *testing.T) {
	t.Parallel()
	network := NewMemory(1)
	a, b := listen(t, network, Options{}), listen(t, network, Options{})
	packets, _ := packetsOf(b)
	buffer := []byte("first")
	if err := a.WritePacket(buffer, b.Addr()); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "other")
	if p := <-packets; string(p.Data) != "first" {
		t.Errorf("got %q", p.Data)
	}
}

func TestOversizePacketIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		if err := a.WritePacket(make([]byte, PacketMax+1), b.Addr()); !errors.Is(err, ErrPacketTooLarge) {
			t.Errorf("%d bytes: %v", PacketMax+1, err)
		}
		wantPacket(t, a, b, []byte("a small one still goes"))
	})
}

func TestPacketsToNobodyAndToNonsenseDoNoHarm(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b, gone := listen(t, network, opts), listen(t, network, opts), listen(t, network, opts)
		gone.Close()
		if err := a.WritePacket([]byte("x"), gone.Addr()); err != nil {
			t.Errorf("to nobody: %v", err)
		}
		for _, addr := range []string{"", "no port", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:99999"} {
			if err := a.WritePacket([]byte("x"), addr); err == nil || !strings.HasPrefix(err.Error(), "holdfast: ") {
				t.Errorf("to %q: %v", addr, err)
			}
		}
		wantPacket(t, a, b, []byte("and still"))
	})
}

func TestASlowReceiverOfPacketsHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		gate := make(chan struct{})
		b.Receive(func(Packet) { <-gate })
		for range 4 * packetsBuffer {
			if err := a.WritePacket([]byte("unread"), b.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		echo(b, KindGossip)
		wantEcho(t, a, b, KindGossip)
		close(gate) // before Close, which waits for the call
	})
}

func TestAReceiverThatIsStoppedIsWaitedForAndGetsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		calls := 0
		stop := b.Receive(func(Packet) {
			calls++
			time.Sleep(time.Hour) // virtual
		})
		for range 2 {
			if err := a.WritePacket([]byte("x"), b.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		stop()
		synctest.Wait() // the second packet is dropped
		if took := time.Since(began); took != time.Hour || calls != 1 {
			t.Errorf("stop took %v, after %d calls", took, calls)
		}
		late, _ := packetsOf(b)
		stop() // a late one, which leaves the next alone
		if err := a.WritePacket([]byte("y"), b.Addr()); err != nil {
			t.Fatal(err)
		}
		if p := <-late; string(p.Data) != "y" {
			t.Errorf("got %q", p.Data)
		}
	})
}
