package transport

import (
	"net"
	"sync"
)

// listener hands out the connections of one kind.
type listener struct {
	kind  Kind
	addr  address
	queue chan net.Conn
	done  chan struct{}

	mu     sync.Mutex
	closed bool
}

func newListener(kind Kind, addr string, backlog int) *listener {
	return &listener{
		kind:  kind,
		addr:  address(addr),
		queue: make(chan net.Conn, backlog),
		done:  make(chan struct{}),
	}
}

// Accept waits for the next connection; after Close it answers ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, ErrClosed
	}
}

// Addr is the endpoint's address.
func (l *listener) Addr() net.Addr { return l.addr }

// Close stops this kind: connections not yet accepted are closed, accepted ones live on.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	for {
		select {
		case c := <-l.queue:
			c.Close()
		default:
			return nil
		}
	}
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// offer queues c unless the listener is closed or its queue is full.
func (l *listener) offer(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.queue <- c:
		return true
	default:
		return false
	}
}

// address is a host:port as a net.Addr.
type address string

// Network is always "tcp": addresses of both networks look alike.
func (a address) Network() string { return "tcp" }

// String is the host:port.
func (a address) String() string { return string(a) }
