package membership

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

func TestMessageArrivesWithItsSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, _ := f.trio()
		if err := a.Send(t.Context(), "b", []byte("vote?")); err != nil {
			t.Fatal(err)
		}
		if got := <-b.messages; got != "a: vote?" {
			t.Errorf("b got %q", got)
		}
		big := strings.Repeat("x", MessageMax)
		if err := b.Send(t.Context(), "a", []byte(big)); err != nil {
			t.Fatal(err)
		}
		if got := <-a.messages; got != "b: "+big {
			t.Errorf("a got %d bytes", len(got))
		}
		if err := a.Send(t.Context(), "a", []byte("to myself")); err != nil {
			t.Fatal(err)
		}
		if got := <-a.messages; got != "a: to myself" {
			t.Errorf("a got %q", got)
		}
	})
}

func TestMessageForAFormerOwnerOfTheAddressIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.trio()
		c.crash()
		d := f.start("d", 1, "10.0.0.3:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b, d)
		if err := a.Send(t.Context(), "c", []byte("for c")); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), "d", []byte("for d")); err != nil {
			t.Fatal(err)
		}
		if got := <-d.messages; got != "a: for d" {
			t.Errorf("d got %q", got)
		}
	})
}

func TestMessageThatCannotGoAnswersSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, _, c := f.trio()
		if err := a.Send(t.Context(), "b", make([]byte, MessageMax+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if err := a.Send(t.Context(), "nobody", nil); !errors.Is(err, ErrUnknownNode) {
			t.Errorf("unknown node: %v", err)
		}
		c.crash()
		start := time.Now()
		if err := a.Send(t.Context(), "c", []byte("x")); err == nil || !strings.Contains(err.Error(), "10.0.0.3:7643") {
			t.Errorf("crashed node: %v, want an error that names the address", err)
		}
		if took := time.Since(start); took > dialLimit+streamLimit {
			t.Errorf("Send to a crashed node took %v", took)
		}
		f.network.Partition([]string{"10.0.0.1:7643"}, []string{"10.0.0.2:7643"})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start = time.Now()
		if err := a.Send(ctx, "b", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send into the void = %v", err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("Send outlived its context by %v", took-100*time.Millisecond)
		}
	})
}

func TestSendToAPeerThatReadsNothingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		endpoint, err := f.network.Listen(t.Context(), "10.0.0.1:7643", transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := open(t, mute{endpoint}, f.names, "a", 1, nil)
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1")
		together(t, 20*time.Second, a, b)
		start := time.Now()
		if a.Send(t.Context(), "b", []byte("x")) == nil {
			t.Error("a message that nobody read was sent")
		}
		if took := time.Since(start); took > dialLimit+streamLimit {
			t.Errorf("Send took %v", took)
		}
	})
}

// mute is an endpoint whose peers never read.
type mute struct{ transport.Endpoint }

func (mute) Dial(context.Context, string, transport.Kind) (net.Conn, error) {
	conn, _ := net.Pipe()
	return conn, nil
}

func TestSlowOwnerDoesNotStopTheGossip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		gate := make(chan struct{})
		release := sync.OnceFunc(func() { close(gate) })
		defer release()
		got := 0
		a := f.start("a", 1, "10.0.0.1:7643", func(c *Config) {
			c.OnMessage = func(string, []byte) { <-gate; got++ }
		})
		b := f.start("b", 1, "10.0.0.2:7643", nil, "10.0.0.1:7643")
		together(t, 20*time.Second, a, b)
		for range inboxMax + 50 {
			if err := b.Send(t.Context(), "a", []byte("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for range 60 {
			time.Sleep(time.Second)
			if !b.sees("a", Alive) || !a.sees("b", Alive) {
				t.Fatal("the gossip stood still")
			}
		}
		release()
		synctest.Wait()
		if got > inboxMax+1 || got < inboxMax {
			t.Errorf("%d messages were kept, want the bound of %d", got, inboxMax)
		}
	})
}

func TestSendsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, _, _ := f.trio()
		f.network.Partition([]string{"10.0.0.1:7643"}, []string{"10.0.0.2:7643"})
		results := make(chan error, 2*sendsMax)
		for range 2 * sendsMax {
			go func() { results <- a.Send(context.Background(), "b", []byte("x")) }()
		}
		busy := 0
		for range 2 * sendsMax {
			if errors.Is(<-results, ErrBusy) {
				busy++
			}
		}
		if busy != sendsMax {
			t.Errorf("%d sends were refused, want %d", busy, sendsMax)
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add(envelope{from: "a", to: "b", body: []byte("body")}.encode())
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		again, err := decodeEnvelope(e.encode())
		if err != nil || again.from != e.from || again.to != e.to || !bytes.Equal(again.body, e.body) {
			t.Errorf("%+v came back as %+v, %v", e, again, err)
		}
	})
}
