package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 10 * time.Second      // for what must happen
	silence  = 60 * time.Millisecond // for what must not
)

// process is where the relay finds a process.
type process struct {
	tcp *net.TCPListener
	udp *net.UDPConn
}

// fleet makes a relay between processes that listen.
func fleet(t *testing.T, n int) (*Relay, []process) {
	t.Helper()
	r, err := New(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	var all []process
	for i := range n {
		p := listen(t)
		all = append(all, p)
		r.Serve(i, p.tcp.Addr().String())
	}
	return r, all
}

func listen(t *testing.T) process {
	t.Helper()
	for range bindAttempts {
		tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Addr().(*net.TCPAddr).Port})
		if err != nil {
			tcp.Close()
			continue
		}
		t.Cleanup(func() { tcp.Close(); udp.Close() })
		return process{tcp, udp}
	}
	t.Fatal("no port is free for TCP and UDP")
	return process{}
}

// send sends a packet from one process to another.
func (p process) send(t *testing.T, to, text string) {
	t.Helper()
	at, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.udp.WriteToUDP([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

// hear returns the next packet and who sent it; "" if there is none for so long.
func (p process) hear(t *testing.T, limit time.Duration) (text, from string) {
	t.Helper()
	b := make([]byte, 1024)
	_ = p.udp.SetReadDeadline(time.Now().Add(limit))
	n, at, err := p.udp.ReadFromUDP(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), at.String()
}

// connect opens a connection from process i to process j and returns both ends.
func connect(t *testing.T, r *Relay, all []process, i, j int) (client, server net.Conn) {
	t.Helper()
	client = dial(t, r.Route(i, j).Gossip)
	_ = all[j].tcp.SetDeadline(time.Now().Add(patience))
	server, err := all[j].tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	client, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// read returns what arrives within limit, n bytes at most, and the error that ended it.
func read(c net.Conn, n int, limit time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	b := make([]byte, n)
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func expect(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if got, err := read(c, len(text), patience); got != text {
		t.Fatalf("got %q and %v, want %q", got, err, text)
	}
}

func expectNothing(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := read(c, 1, silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %q and %v, want nothing at all", got, err)
	}
}

// carried waits until the relay has handled so many packets.
func carried(t *testing.T, r *Relay, packets int64) Traffic {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range 10_000 {
		if got := r.Traffic(); got.Packets >= packets {
			return got
		}
		<-ticker.C
	}
	t.Fatalf("%+v, want %d packets", r.Traffic(), packets)
	return Traffic{}
}

func TestPacketsAndStreamsArriveBothWays(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 3)
	all[0].send(t, r.Route(0, 2).Gossip, "ping")
	text, from := all[2].hear(t, patience)
	if text != "ping" || from != r.Route(2, 0).Gossip {
		t.Fatalf("got %q from %s: it comes from where the answer goes to, %s", text, from, r.Route(2, 0).Gossip)
	}
	all[2].send(t, from, "pong")
	if text, from := all[0].hear(t, patience); text != "pong" || from != r.Route(0, 2).Gossip {
		t.Fatalf("got %q from %s", text, from)
	}
	client, server := connect(t, r, all, 1, 0)
	big := strings.Repeat("x", 3*chunkMax*chunksMax)
	go func() { _, _ = io.WriteString(client, big) }()
	expect(t, server, big)
	say(t, server, "answer")
	expect(t, client, "answer")
}

func TestACutOfOneDirectionLeavesTheOther(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	client, server := connect(t, r, all, 0, 1)
	r.Set(0, 1, transport.Faults{Cut: true})
	say(t, server, "down")
	expect(t, client, "down")
	say(t, client, "up")
	expectNothing(t, server)
	all[1].send(t, r.Route(1, 0).Gossip, "down")
	if text, _ := all[0].hear(t, patience); text != "down" {
		t.Fatal("the other direction is cut too")
	}
	all[0].send(t, r.Route(0, 1).Gossip, "up")
	if got := carried(t, r, 2); got.Dropped != 1 {
		t.Errorf("%+v: a packet got through a cut", got)
	}
	r.Calm()
	expect(t, server, "up") // a stream loses nothing, as TCP does not
	all[0].send(t, r.Route(0, 1).Gossip, "again")
	if text, _ := all[1].hear(t, patience); text != "again" {
		t.Errorf("got %q: a packet that was lost came back", text)
	}
}

func TestNobodyConnectsThroughACut(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2]int{{0, 1}, {1, 0}} { // a handshake needs both
		r, all := fleet(t, 2)
		r.Set(cut[0], cut[1], transport.Faults{Cut: true})
		client := dial(t, r.Route(0, 1).Gossip)
		say(t, client, "hello")
		_ = all[1].tcp.SetDeadline(time.Now().Add(silence))
		if _, err := all[1].tcp.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%v: connected through a cut", err)
		}
		r.Calm()
		_ = all[1].tcp.SetDeadline(time.Now().Add(patience))
		server, err := all[1].tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		expect(t, server, "hello")
		server.Close()
	}
}

func TestTheEndOfAStreamIsHeldBackToo(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	client, server := connect(t, r, all, 0, 1)
	r.Set(0, 1, transport.Faults{Cut: true})
	client.Close()
	expectNothing(t, server)
	r.Calm()
	if _, err := read(server, 1, patience); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the end never came")
	}
}

func TestWhatIsDelayedComesLaterAndInOrder(t *testing.T) {
	t.Parallel()
	const delay = 80 * time.Millisecond
	r, all := fleet(t, 2)
	client, server := connect(t, r, all, 0, 1)
	r.Set(0, 1, transport.Faults{Delay: delay, Jitter: delay})
	began := time.Now()
	all[0].send(t, r.Route(0, 1).Gossip, "late")
	for _, s := range []string{"one ", "two ", "three"} {
		say(t, client, s)
	}
	expect(t, server, "one two three")
	if took := time.Since(began); took < delay {
		t.Errorf("a stream took %v, want %v at least", took, delay)
	}
	if text, _ := all[1].hear(t, patience); text != "late" || time.Since(began) < delay {
		t.Errorf("a packet was %q after %v", text, time.Since(began))
	}
	began = time.Now()
	say(t, server, "back")
	expect(t, client, "back")
	if took := time.Since(began); took > delay {
		t.Logf("the way back took %v: a slow machine, or a delay in the wrong direction", took)
	}
}

func TestPacketsAreLostAndDoubledByChance(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	r.Set(0, 1, transport.Faults{Drop: 0.5})
	for range 200 {
		all[0].send(t, r.Route(0, 1).Gossip, "x")
	}
	if got := carried(t, r, 200); got.Dropped < 50 || got.Dropped > 150 {
		t.Errorf("%+v: want about a half lost", got)
	}
	for text := "x"; text != ""; text, _ = all[1].hear(t, silence) {
	}
	r.Set(0, 1, transport.Faults{Duplicate: 1})
	all[0].send(t, r.Route(0, 1).Gossip, "twice")
	for range 2 {
		if text, _ := all[1].hear(t, patience); text != "twice" {
			t.Errorf("got %q", text)
		}
	}
}

func TestWhereNobodyListensIsRefused(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, 2)
	r.Serve(1, "")
	client, err := net.Dial("tcp", r.Route(0, 1).Gossip)
	if err != nil {
		return // at once
	}
	defer client.Close()
	if _, err := read(client, 1, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v: want the connection to break", err)
	}
}

func TestABrokenConnectionEndsForBothSides(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 3)
	client, server := connect(t, r, all, 0, 1)
	other, far := connect(t, r, all, 2, 1)
	if n := r.Break(0); n != 1 {
		t.Errorf("%d connections broke, want 1", n)
	}
	for _, c := range []net.Conn{client, server} {
		if _, err := read(c, 1, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: one side lives on", err)
		}
	}
	say(t, other, "well")
	expect(t, far, "well")
}

func TestADetourLeadsThroughTheRelayAndNowhereElse(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	const name = "127.77.0.2:7643" // nothing is bound there
	n := Detour(transport.TCP(), map[string]Route{name: r.Route(0, 1)}, func(addr string) { r.Serve(0, addr) })
	e, err := n.Listen(t.Context(), "127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	packets := make(chan transport.Packet, 1)
	e.Receive(func(p transport.Packet) { packets <- p })
	if err := e.WritePacket([]byte("ping"), name); err != nil {
		t.Fatal(err)
	}
	text, from := all[1].hear(t, patience)
	if text != "ping" {
		t.Fatalf("got %q", text)
	}
	all[1].send(t, from, "pong")
	p := <-packets
	if string(p.Data) != "pong" {
		t.Fatalf("got %q", p.Data)
	}
	if err := e.WritePacket([]byte("thanks"), p.From.String()); err != nil {
		t.Errorf("an answer to a packet: %v", err)
	}
	c, err := e.Dial(t.Context(), name, transport.KindRaft)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	direct := all[1].tcp.Addr().String()
	if err := e.WritePacket([]byte("x"), direct); err == nil {
		t.Error("a packet goes past the relay: cuts would not be cuts")
	}
	if _, err := e.Dial(t.Context(), direct, transport.KindRaft); err == nil {
		t.Error("a connection goes past the relay: cuts would not be cuts")
	}
}

func TestWhatIsLargeIsLostAndWhatIsSmallPasses(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	client, server := connect(t, r, all, 0, 1)
	const most = 600
	r.Set(0, 1, transport.Faults{Large: most})
	large, small := strings.Repeat("x", most+1), strings.Repeat("y", most)
	all[0].send(t, r.Route(0, 1).Gossip, large)
	all[0].send(t, r.Route(0, 1).Gossip, small)
	if text, _ := all[1].hear(t, patience); text != small {
		t.Fatalf("a packet of %d bytes passes", len(text))
	}
	say(t, client, "small")
	expect(t, server, "small")
	say(t, server, large)
	expect(t, client, large) // the other direction
	say(t, client, large)
	expectNothing(t, server)
	say(t, client, "after it")
	expectNothing(t, server) // a stream is in order
	r.Calm()
	expect(t, server, large+"after it")
}

func TestGossipAndRaftAreCutApart(t *testing.T) {
	t.Parallel()
	r, all := fleet(t, 2)
	open := func(at string) (client, server net.Conn) {
		client = dial(t, at)
		_ = all[1].tcp.SetDeadline(time.Now().Add(patience))
		server, err := all[1].tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return client, server
	}
	route := r.Route(0, 1)
	gossip, heard := open(route.Gossip)
	raft, replica := open(route.Raft)
	probe, asked := open(route.Other)

	r.Set(0, 1, transport.Faults{CutGossip: true})
	say(t, raft, "raft")
	expect(t, replica, "raft")
	say(t, probe, "who")
	expect(t, asked, "who")
	say(t, gossip, "gossip")
	all[0].send(t, route.Gossip, "packet")
	expectNothing(t, heard)
	if text, _ := all[1].hear(t, silence); text != "" {
		t.Errorf("%q passes where gossip is cut", text)
	}

	r.Set(0, 1, transport.Faults{CutRaft: true})
	expect(t, heard, "gossip") // held back until now
	all[0].send(t, route.Gossip, "packet")
	if text, _ := all[1].hear(t, patience); text != "packet" {
		t.Errorf("got %q: gossip is cut together with Raft", text)
	}
	say(t, raft, "later")
	expectNothing(t, replica)
	r.Calm()
	expect(t, replica, "later")
}
