package wire

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

// dialRaft is a stranger's connection, in a bubble. It has greeted in the name of the nth node,
// unless that is 0.
func dialRaft(t *testing.T, network transport.Network, addr string, n int) net.Conn {
	t.Helper()
	endpoint, err := network.Listen(t.Context(), "10.0.0.66:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endpoint.Close() })
	conn, err := endpoint.Dial(t.Context(), addr, transport.KindRaft)
	if err == nil && n > 0 {
		_, err = conn.Write(framed(t, frameGreeting, goodGreeting(n)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// ended waits for the end of conn, and returns how long that took.
func ended(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the connection stays open")
	}
	return time.Since(began)
}

func TestConnectionThatBringsNoWholeFrameInTimeIsClosed(t *testing.T) {
	t.Parallel()
	batch := goodBatch(nil)
	greeting, good := framed(t, frameGreeting, goodGreeting(2)), framed(t, frameBatch, &batch)
	for name, said := range map[string][]byte{
		"silence":                   nil,
		"half a greeting":           greeting[:len(greeting)/2],
		"half a frame":              slices.Concat(greeting, good[:len(good)-1]),
		"half a frame after a good": slices.Concat(greeting, good, good[:len(good)-1]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := transport.NewMemory(1)
				to := newMailbox(t, network, 1, func() {})
				defer to.end(t)
				conn := dialRaft(t, network, to.endpoint.Addr(), 0)
				if _, err := conn.Write(said); err != nil {
					t.Fatal(err)
				}
				if took := ended(t, conn); took > frameTimeout+time.Second {
					t.Errorf("closed after %v", took)
				}
				if n := to.refused.Load(); n != 1 {
					t.Errorf("%d refusals counted", n)
				}
			})
		})
	}
}

func TestConnectionMayBeQuietBetweenFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := newMailbox(t, network, 1, func() {})
		defer to.end(t)
		conn := dialRaft(t, network, to.endpoint.Addr(), 2)
		batch := goodBatch(nil)
		for range 3 {
			if _, err := conn.Write(framed(t, frameBatch, &batch)); err != nil {
				t.Fatal(err)
			}
			<-to.arrived
			time.Sleep(time.Hour)
		}
	})
}

// What a later version says beside what this one knows must not cost it the connection: two versions
// would not be in one group. It is bounded like all else, and no greeting.
func TestAFrameOfALaterVersionIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := newMailbox(t, network, 1, func() {})
		defer to.end(t)
		said := func(kind byte, size int) []byte {
			frame := make([]byte, frameHeader+size)
			putHeader(frame, kind)
			return frame
		}
		batch := goodBatch(nil)
		conn := dialRaft(t, network, to.endpoint.Addr(), 2)
		for _, kind := range []byte("0929") {
			if _, err := conn.Write(slices.Concat(said(kind, 1), said(kind, laterMax), framed(t, frameBatch, &batch))); err != nil {
				t.Fatal(err)
			}
			<-to.arrived
			answer := make([]byte, 1)
			if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != answerReceived { // of the batch alone
				t.Fatal(answer, err)
			}
			if _, err := conn.Write(said(kind, 5)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // the connection may be quiet after it, too
		}
		refused := to.refused.Load()
		damaged := said('3', 9)
		damaged[frameHeader]++
		for name, frame := range map[string][]byte{
			"too long": said('3', laterMax+1), "empty": said('3', 0), "damaged": damaged, "of another kind": said('b', 9),
		} {
			conn := dialRaft(t, network, to.endpoint.Addr(), 3)
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			ended(t, conn)
			if refused++; to.refused.Load() != refused {
				t.Errorf("%s: not refused", name)
			}
		}
		first := dialRaft(t, network, to.endpoint.Addr(), 0)
		if _, err := first.Write(said('3', 9)); err != nil {
			t.Fatal(err)
		}
		ended(t, first)
	})
}

func TestFramesOfAllConnectionsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory(1)
		to := newMailbox(t, network, 1, func() {})
		defer to.end(t)
		to.memory.max = 4 << 20
		header := make([]byte, frameHeader)
		copy(header, []byte{frameBatch, 0, 0, 0, 0, 0, 0, 5}) // 80 MiB
		for range 20 {
			conn := dialRaft(t, network, to.endpoint.Addr(), 2)
			go func() {
				_, _ = conn.Write(header)
				_, _ = conn.Write(make([]byte, 1<<20)) // and no more
			}()
		}
		synctest.Wait()
		if n := to.memory.used.Load(); n == 0 || n > to.memory.max {
			t.Errorf("%d bytes are under way, want at most %d", n, to.memory.max)
		}
		if n := to.refused.Load(); n < 20-4-2 {
			t.Errorf("%d of 20 connections were refused, each of which would hold a megabyte", n)
		}
		// What small frames need is there all the same.
		conn := dialRaft(t, network, to.endpoint.Addr(), 2)
		batch := goodBatch(nil)
		if _, err := conn.Write(framed(t, frameBatch, &batch)); err != nil {
			t.Fatal(err)
		}
		<-to.arrived
		time.Sleep(3 * time.Minute) // until all were given up
		if n := to.memory.used.Load(); n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
}
