package transport

import (
	"net"
	"slices"
	"sync"
)

// listener hands out the connections of one kind.
type listener struct {
	kind    Kind
	addr    address
	backlog int
	ready   chan struct{} // capacity 1: the queue may not be empty
	done    chan struct{}

	mu     sync.Mutex
	queue  []*conn // wait for Accept
	closed bool
}

func newListener(kind Kind, addr string, backlog int) *listener {
	return &listener{
		kind:    kind,
		addr:    address(addr),
		backlog: backlog,
		ready:   make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
}

// Accept waits for a connection. After Close it returns ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		if c := l.next(); c != nil {
			return c, nil
		}
		select {
		case <-l.ready:
		case <-l.done:
			return nil, ErrClosed
		}
	}
}

// next takes the first of the queue, nil if there is none.
func (l *listener) next() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	first := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	l.signal() // for another connection and another caller of Accept
	return first
}

func (l *listener) signal() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// Addr is the endpoint's address.
func (l *listener) Addr() net.Addr { return l.addr }

// Close closes the connections that wait for Accept. Accepted ones stay.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	for _, c := range l.queue {
		c.Close()
	}
	l.queue = nil
	return nil
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// offer queues c and returns the connection that it displaces: as in a connLimit the oldest of the
// host that has the most, or c itself if the listener is closed.
func (l *listener) offer(c *conn) (evicted *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.backlog == 0 {
		return c
	}
	if len(l.queue) >= l.backlog {
		count, fullest := make(map[string]int), l.queue[0].host
		for _, waiting := range l.queue {
			if count[waiting.host]++; count[waiting.host] > count[fullest] {
				fullest = waiting.host
			}
		}
		i := slices.IndexFunc(l.queue, func(waiting *conn) bool { return waiting.host == fullest })
		evicted = l.queue[i]
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.queue = append(l.queue, c)
	l.signal()
	return evicted
}

// address is a host:port as a net.Addr.
type address string

// Network is always "tcp": addresses of both networks look alike.
func (a address) Network() string { return "tcp" }

// String is the host:port.
func (a address) String() string { return string(a) }
