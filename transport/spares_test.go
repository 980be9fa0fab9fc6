//go:build unix

package transport

import (
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/process/processtest"
)

// The system asks for a descriptor before it waits for a connection. So the spare one was open to
// a hungry process until a connection came, which took it from all: one was lost with every
// connection accepted.
func TestAConnectionAcceptedWithoutAFreeDescriptorTakesNoSpareOneBeforeItIsThere(t *testing.T) {
	if !processtest.Alone(t) { // whose descriptors it can use up
		return
	}
	w, err := bindBoth(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 96, Max: 96}); err != nil {
		t.Fatal(err)
	}
	eat := func() {
		for {
			if _, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
				return
			}
		}
	}
	eat()
	accepted, done := make(chan net.Conn), make(chan error, 1)
	go func() {
		for {
			c, err := w.Accept()
			if err != nil {
				done <- err
				return
			}
			accepted <- c
		}
	}()
	const rounds = 60 // five times as many as there are spares
	for range rounds {
		for hungry := time.Now(); time.Since(hungry) < 2*time.Millisecond; runtime.Gosched() { // while Accept begins to wait
			eat()
		}
		dialed, err := w.Dial(t.Context(), w.Addr(), KindRaft)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case c := <-accepted:
			c.Close()
		case err := <-done:
			t.Fatal(err)
		}
		dialed.Close()
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
