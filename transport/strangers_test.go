package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/testlog"
)

func TestGarbageInsteadOfAPrefaceEndsTheConnection(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a := listen(t, network, opts)
		b := listen(t, network, opts)
		echo(b, KindRaft)
		garbage := []string{
			"HF\x01\x00", "HF\x01\x04", "HF\x01\xff", "HF\x02\x01", "HF\x00\x01", "HFHF", "hf\x01\x01",
			"\x00\x00\x00\x00", "\xae\x7d\x00\x01 dragonboat", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
			strings.Repeat("\xff", 70000), "SSH-2.0-OpenSSH_9.2\r\n",
		}
		var group sync.WaitGroup
		for _, g := range garbage {
			c := stranger(t, a, b)
			group.Go(func() { io.WriteString(c, g) }) // may fail: the other side does not read it all
			group.Go(func() { wantNoWelcome(t, c, g) })
		}
		group.Wait()
		wantEcho(t, a, b, KindRaft)
	})
}

// wantNoWelcome expects the end of the connection, after at most a TLS alert.
func wantNoWelcome(t *testing.T, c net.Conn, said string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c)
	if isTimeout(err) || len(got) > 16 {
		t.Errorf("after %.20q: %q, %v", said, got, err)
	}
}

func TestStrayHTTPRequestIsToldSo(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		client := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return a.(*endpoint).wire.Dial(ctx, b.Addr(), KindRaft)
		}}
		defer client.CloseIdleConnections()
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			request, _ := http.NewRequestWithContext(t.Context(), method, "http://node/", strings.NewReader("some body"))
			answer, err := client.RoundTrip(request)
			if err != nil {
				t.Errorf("%s: %v", method, err)
				continue
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != 400 || method != "HEAD" && !strings.Contains(string(text), "holdfast") {
				t.Errorf("%s: %s %q", method, answer.Status, text)
			}
		}
	})
}

func TestSlowPrefaceIsCutAfterItsLimit(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{"silence": "", "half a preface": "HF", "half of TLS": "\x16\x03\x01\x02"} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", name, secure), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					network, opts, limit := NewMemory(1), Options{}, 3*time.Second
					if secure {
						opts, limit = secretOptions(t, "fleet", "a secret of the fleet"), 5*time.Second
					} else if len(said) == prefaceSize {
						t.Skip("that is a whole preface, and wrong")
					}
					a, b := listen(t, network, opts), listen(t, network, opts)
					begin := time.Now()
					c := stranger(t, a, b)
					io.WriteString(c, said)
					if _, err := io.ReadAll(c); err != nil {
						t.Log(err)
					}
					if took := time.Since(begin); took != limit {
						t.Errorf("cut after %v, want %v", took, limit)
					}
				})
			})
		}
	}
}

func TestSlowPrefaceIsCutOnRealSocketsToo(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	b := listen(t, TCP(), Options{PrefaceTimeout: limit})
	begin := time.Now()
	c := stranger(t, listen(t, TCP(), Options{}), b)
	wantRefused(t, c)
	if took := time.Since(begin); took < limit {
		t.Errorf("cut after %v, before its limit", took)
	}
}

func TestHonestConnectionOutlivesThePrefaceLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, opts := NewMemory(1), secretOptions(t, "fleet", "a secret of the fleet")
		a, b := listen(t, network, opts), listen(t, network, opts)
		dialed, accepted := connect(t, a, b, KindRaft)
		time.Sleep(time.Hour) // virtual
		if _, err := dialed.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestThousandsOfHalfOpenConnectionsAreBoundedAndHonestOnesServed(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a := listen(t, network, opts)
		opts.StrangersMax = 32
		opts.HandshakeTimeout, opts.PrefaceTimeout = time.Hour, time.Hour // nothing leaves by itself
		b := listen(t, network, opts)
		echo(b, KindRaft)
		for i := range 2000 {
			stranger(t, a, b)
			if i%200 == 199 {
				wantEcho(t, a, b, KindRaft)
			}
			if n := handshakingSize(b); n > 32 {
				t.Fatalf("%d strangers are inside", n)
			}
		}
		if n := openConns(b); n > 64 {
			t.Errorf("%d connections are open", n)
		}
	})
}

func handshakingSize(e Endpoint) int {
	l := e.(*endpoint).handshaking
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

func TestFloodOfOneHostDisplacesOnlyItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		honest := listenAt(t, network, "10.0.0.1:0", Options{})
		flood := listenAt(t, network, "10.0.0.66:0", Options{})
		b := listenAt(t, network, "10.0.0.2:0", Options{StrangersMax: 16})
		echo(b, KindRaft)
		slow := stranger(t, honest, b)
		for range 1000 {
			stranger(t, flood, b)
		}
		synctest.Wait()
		if _, err := slow.Write(appendPreface(nil, KindRaft)); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		slow.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadFull(slow, make([]byte, 1)); err != nil {
			t.Errorf("an honest but slow node was shown out: %v", err)
		}
	})
}

func TestRefusalsAreLoggedNowAndThenOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Lines
		network := NewMemory(1)
		a := listen(t, network, Options{})
		b := listen(t, network, Options{Logger: log.Logger(slog.LevelInfo)})
		for range 3 {
			for range 100 {
				io.WriteString(stranger(t, a, b), "rubbish!")
			}
			time.Sleep(refusalsPeriod) // virtual
		}
		if n := log.Count("refused a connection"); n != 3 {
			t.Errorf("%d warnings in three periods:\n%s", n, log.String())
		}
		stranger(t, a, b).Close()
		synctest.Wait()
		if log.Count("EOF") > 0 {
			t.Error("a port check that says nothing was reported as a refusal")
		}
	})
}

func TestFailingAcceptAndReadAreTriedAgainEverMoreSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a := listen(t, network, Options{})
		w, err := network.bind("10.0.0.1", 7643)
		if err != nil {
			t.Fatal(err)
		}
		failing := &failingWire{listening: w, failures: 20}
		b := newEndpoint(failing, Options{}.withDefaults())
		defer b.Close()
		echo(b, KindRaft)
		begin := time.Now()
		wantEcho(t, a, b, KindRaft)
		if took := time.Since(begin); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("20 failures in a row cost %v: neither a busy loop nor a standstill was wanted", took)
		}
	})
}

// failingWire fails like a process without descriptors, a number of times.
type failingWire struct {
	listening
	failures int
}

func (w *failingWire) Accept() (net.Conn, error) {
	if w.failures--; w.failures >= 0 {
		return nil, errors.New("too many open files")
	}
	return w.listening.Accept()
}

// Found by reading, 2026-11-29: each success ended the row of failures, and the next failure began one, with
// its line. A process that freed descriptors and used them up again wrote 179 of them in a second.
func TestAFlappingLackOfDescriptorsIsOneLineInAPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Lines
		network := NewMemory(1)
		a := listen(t, network, Options{})
		w, err := network.bind("10.0.0.1", 7643)
		if err != nil {
			t.Fatal(err)
		}
		b := newEndpoint(&flappingWire{listening: w}, Options{Logger: log.Logger(slog.LevelInfo)}.withDefaults())
		defer b.Close()
		echo(b, KindRaft)
		stop := b.Receive(func(Packet) {})
		for range 3 {
			for range 50 {
				wantEcho(t, a, b, KindRaft)
				a.WritePacket([]byte("x"), b.Addr())
				time.Sleep(retryDelayMin) // virtual
			}
			time.Sleep(refusalsPeriod) // virtual
		}
		stop()
		for _, line := range []string{"accepting connections fails", "receiving packets fails"} {
			if n, first := log.Count(line), log.Count(line, "unreported=0"); n != 3 || first != 1 {
				t.Errorf("%d lines in three periods, %d of which tell of no others:\n%.2000s", n, first, log.String())
			}
		}
	})
}

// flappingWire fails before each connection and each packet.
type flappingWire struct {
	listening
	accepts, reads int
}

func (w *flappingWire) Accept() (net.Conn, error) {
	if w.accepts++; w.accepts%2 == 1 {
		return nil, errors.New("too many open files")
	}
	return w.listening.Accept()
}

func (w *flappingWire) ReadPacket() (Packet, error) {
	if w.reads++; w.reads%2 == 1 {
		return Packet{}, errors.New("too many open files")
	}
	return w.listening.ReadPacket()
}

// The raft leader of a fleet that forms dials a replica that is just starting. It was refused, and
// the engine then paused for up to 700 ms.
func TestAConnectionWaitsAMomentForItsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory(1)
		a, b := listen(t, network, Options{}), listen(t, network, Options{})
		early, err := a.Dial(t.Context(), b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		defer early.Close()
		time.Sleep(handlerWait / 2)
		conns, _ := arrivals(b, KindRaft)
		defer (<-conns).Close()

		lost, err := a.Dial(t.Context(), b.Addr(), KindProbe)
		if err != nil {
			t.Fatal(err)
		}
		defer lost.Close()
		began := time.Now()
		if _, err := lost.Read(make([]byte, 1)); err == nil || time.Since(began) > 2*handlerWait {
			t.Errorf("a connection of a kind that nobody accepts ended after %v with %v", time.Since(began), err)
		}
		if size := handshakingSize(b); size != 0 {
			t.Errorf("%d connections are still in their handshake", size)
		}
	})
}

// Each node that starts asks its peers so who is there, which may have begun a moment ago; their
// users read no warning of it.
func TestAProbeThatNobodyAnswersIsClosedWithoutAWord(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		var log bytes.Buffer
		quiet := opts
		quiet.Logger = slog.New(slog.NewTextHandler(&log, nil))
		a, b := listen(t, network, opts), listen(t, network, quiet)
		c, err := a.Dial(t.Context(), b.Addr(), KindProbe)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if err := b.Close(); err != nil { // whatever writes to the log has ended
			t.Fatal(err)
		}
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}
