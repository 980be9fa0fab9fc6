package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/link"
)

// A page of a list is long, the way is slow, and the pongs come behind it: a client with a session took that
// for silence, went to another replica, asked for the same page, and so on.
func TestALongAnswerOnASlowWayIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newConn(near, "replica")
		ctx, cancel := context.WithCancel(t.Context())
		came := make(chan int, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- c.run(ctx, func() bool { return false }, func(f link.Frame) error {
				came <- len(f.Body)
				return nil
			})
		}()
		go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(far)) }() // the pings
		const size = 1 << 20
		frame := link.AppendFrame(nil, link.KindEvents, 0, make([]byte, size))
		for len(frame) > 0 {
			n := min(len(frame), 64<<10)
			if _, err := far.Write(frame[:n]); err != nil {
				break
			}
			frame = frame[n:]
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case n := <-came:
			if n != size {
				t.Errorf("%d bytes came", n)
			}
		case err := <-ended:
			t.Errorf("the connection has ended: %v", err)
			ended <- err
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_ = far.Close()
	})
}
