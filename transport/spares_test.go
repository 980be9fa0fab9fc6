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

// Found by reading, 2026-11-29: in a process without descriptors the first twelve to connect kept the spare
// ones, clients for as long as they lived and strangers until they were cut, and no other replica came in.
func TestOthersKeepNoSpareDescriptorFromReplicas(t *testing.T) {
	t.Run("clients", func(t *testing.T) {
		if processtest.Alone(t) {
			admittedLast(t, appendPreface(nil, KindClient), true)
		}
	})
	t.Run("strangers", func(t *testing.T) {
		if processtest.Alone(t) {
			admittedLast(t, nil, false)
		}
	})
}

// admittedLast expects that a connection of raft is admitted after many that have said something.
func admittedLast(t *testing.T, said []byte, refused bool) {
	w, err := bindBoth(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(w, Options{PrefaceTimeout: time.Hour}.withDefaults())
	defer e.Close()
	arrivals(e, KindClient)
	replicas, _ := arrivals(e, KindRaft)
	sockets := make([]int, 20) // made while there are descriptors
	for i := range sockets {
		if sockets[i], err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0); err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(sockets[i])
		limit := syscall.NsecToTimeval(patience.Nanoseconds())
		if err := syscall.SetsockoptTimeval(sockets[i], syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 96, Max: 96}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	to := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: w.tcp.Addr().(*net.TCPAddr).Port}
	connect := func(socket int, says []byte) {
		if err := syscall.Connect(socket, to); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Write(socket, says); err != nil {
			t.Fatal(err)
		}
	}
	last := len(sockets) - 1
	for _, socket := range sockets[:last] {
		connect(socket, said)
	}
	connect(sockets[last], appendPreface(nil, KindRaft))
	select {
	case c := <-replicas:
		defer c.Close()
	case <-time.After(patience): // real time: a bound
		t.Fatal("no other replica comes in")
	}
	for _, socket := range sockets[:last] {
		if !refused {
			break
		}
		if n, err := syscall.Read(socket, make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a client is not told to go: %d bytes, %v", n, err)
		}
	}
}
