package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

func TestStreamsAreOrderedAndIntactInBothDirections(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		dialed, accepted := connect(t, a, b, KindRaft)
		var group sync.WaitGroup
		for i, way := range [][2]net.Conn{{dialed, accepted}, {accepted, dialed}} {
			sent := make([]byte, 3<<20)
			rand.NewChaCha8([32]byte{byte(i)}).Read(sent)
			group.Go(func() {
				for rest, size := sent, 1; len(rest) > 0; size = size*3 + 1 {
					n, err := way[0].Write(rest[:min(size, len(rest))])
					if err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			})
			group.Go(func() {
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(way[1], got); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, sent) {
					t.Error("the bytes changed on the way")
				}
			})
		}
		group.Wait()
	})
}

func TestConcurrentDialsEachReachTheirKind(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		for _, kind := range []Kind{KindRaft, KindGossip, KindHTTP} {
			b.Handle(kind, func(c net.Conn) {
				fmt.Fprintf(c, "%-8v", kind)
				c.Close()
			})
		}
		var group sync.WaitGroup
		for i := range 48 {
			kind := KindRaft + Kind(i%3)
			group.Go(func() {
				c, err := a.Dial(t.Context(), b.Addr(), kind)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if got, err := io.ReadAll(c); err != nil || string(got) != fmt.Sprintf("%-8v", kind) {
					t.Errorf("dialed %v, got %q, %v", kind, got, err)
				}
			})
		}
		group.Wait()
	})
}

func TestWriteOfManyGoroutinesDoesNotMix(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		dialed, accepted := connect(t, a, b, KindRaft)
		const writers, rounds, size = 16, 8, 300 << 10 // more than fits under way
		for i := range writers {
			go func() {
				for range rounds {
					dialed.Write(bytes.Repeat([]byte{byte(i)}, size))
				}
			}()
		}
		block := make([]byte, size)
		for range writers * rounds {
			if _, err := io.ReadFull(accepted, block); err != nil {
				t.Fatal(err)
			}
			if bytes.Count(block, block[:1]) != size {
				t.Fatal("two writes were mixed")
			}
		}
	})
}

func TestDeadlinesEndReadsAndWritesUnderWay(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		dialed, accepted := connect(t, a, b, KindRaft)

		reading := make(chan error, 1)
		go func() {
			_, err := dialed.Read(make([]byte, 1))
			reading <- err
		}()
		dialed.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if err := <-reading; !errors.Is(err, os.ErrDeadlineExceeded) || !isTimeout(err) {
			t.Errorf("read: %v", err)
		}
		dialed.SetReadDeadline(time.Time{})
		go accepted.Write([]byte("x"))
		if _, err := dialed.Read(make([]byte, 1)); err != nil {
			t.Errorf("read after the deadline was taken back: %v", err)
		}

		dialed.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := dialed.Write(make([]byte, 32<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write that nobody reads: %v", err)
		}
	})
}

func TestClosedConnectionEndsForBothSides(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		dialed, accepted := connect(t, a, b, KindGossip)
		if _, err := dialed.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		if err := dialed.Close(); err != nil {
			t.Error(err)
		}
		if err := dialed.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if _, err := dialed.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
		if got, err := io.ReadAll(accepted); err != nil || string(got) != "last words" {
			t.Errorf("the other side got %q, %v", got, err)
		}
		accepted.SetWriteDeadline(time.Now().Add(patience))
		if n := openConns(a); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
		for err := error(nil); err == nil; {
			if _, err = accepted.Write(make([]byte, 64<<10)); isTimeout(err) {
				t.Error("writing to a closed connection goes on")
			}
		}
	})
}

func TestDialHeedsItsContext(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Dial(ctx, b.Addr(), KindRaft); !errors.Is(err, context.Canceled) {
			t.Errorf("dial under an ended context: %v", err)
		}
		if _, err := a.Dial(t.Context(), b.Addr(), Kind(9)); !errors.Is(err, ErrInvalid) {
			t.Errorf("dial of an unknown kind: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		echo(b, KindRaft)
		c, err := a.Dial(ctx, b.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // must not reach into the connection
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestHTTPOneAndTwoAreServedOnThePort(t *testing.T) {
	t.Parallel()
	onEachNetwork(t, func(t *testing.T, network Network, opts Options) {
		a, b := listen(t, network, opts), listen(t, network, opts)
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
		defer server.Close()
		conns, _ := arrivals(b, KindHTTP)
		go server.Serve(accepting{conns, make(chan struct{})})
		for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
			speaks := new(http.Protocols)
			speaks.SetHTTP1(want == "HTTP/1.1")
			speaks.SetUnencryptedHTTP2(want == "HTTP/2.0")
			client := &http.Transport{Protocols: speaks, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return a.Dial(ctx, b.Addr(), KindHTTP)
			}}
			answer, err := (&http.Client{Transport: client}).Get("http://node/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if string(body) != want {
				t.Errorf("served %q, want %s", body, want)
			}
			client.CloseIdleConnections()
		}
	})
}

// accepting is a listener of connections that a handler got.
type accepting struct {
	conns <-chan net.Conn
	done  chan struct{}
}

func (a accepting) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.done:
		return nil, ErrClosed
	}
}

func (a accepting) Close() error {
	close(a.done)
	return nil
}

func (accepting) Addr() net.Addr { return address("") }
