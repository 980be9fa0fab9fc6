package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	memoryPortFirst = 20000 // of port 0
	memoryPortLast  = 39999
	memoryBacklog   = 128 // connections that wait for the endpoint
	packetsBuffer   = 512 // packets that wait for the endpoint
)

// Memory is a network inside one process, for tests. A host name or IP address exists once an
// endpoint is bound to it; names are not resolved, and a wildcard means 127.0.0.1. Without faults it
// is fast and perfect. It has no sockets and no goroutines, and also works within testing/synctest
// bubbles (make it inside the bubble).
type Memory struct {
	seed  uint64
	rules atomic.Pointer[rules]

	mu      sync.Mutex
	wires   map[string]*memoryWire // by address
	ports   map[string]int         // by host: the last one for port 0
	dialed  int                    // connections so far, for the dialing side's port numbers
	links   map[pair]*link
	streams map[*stream]struct{}
}

// NewMemory makes an empty network. The seed decides the effect of faults: on each link (directed
// pair of addresses) the n-th packet has the same fate in every run, whatever other links carry.
func NewMemory(seed uint64) *Memory {
	m := &Memory{
		seed:    seed,
		wires:   make(map[string]*memoryWire),
		ports:   make(map[string]int),
		links:   make(map[pair]*link),
		streams: make(map[*stream]struct{}),
	}
	m.rules.Store(newRules(nil))
	return m
}

// Listen opens an endpoint on the network. Port 0 gives the host's next port from 20000 on; a port
// in use answers syscall.EADDRINUSE.
func (m *Memory) Listen(ctx context.Context, bind string, opts Options) (Endpoint, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("holdfast: listening on %s: %w", bind, err)
	}
	host, port, err := splitAddr(bind)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	w, err := m.bind(host, port)
	if err != nil {
		return nil, fmt.Errorf("holdfast: listening on %s: %w", bind, err)
	}
	return newEndpoint(w, opts.withDefaults()), nil
}

func (m *Memory) bind(host string, port int) (*memoryWire, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if port == 0 {
		var err error
		if port, err = m.freePort(host); err != nil {
			return nil, err
		}
	}
	at := placeOf(host, port)
	if m.wires[at.addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	w := newMemoryWire(m, at)
	m.wires[at.addr] = w
	return w, nil
}

// freePort does not fill gaps, so that a port is not reused soon after its end.
func (m *Memory) freePort(host string) (int, error) {
	for range memoryPortLast - memoryPortFirst + 1 {
		port := m.ports[host] + 1
		if port < memoryPortFirst || port > memoryPortLast {
			port = memoryPortFirst
		}
		m.ports[host] = port
		if m.wires[placeOf(host, port).addr] == nil {
			return port, nil
		}
	}
	return 0, syscall.EADDRINUSE
}

func (m *Memory) wire(addr string) *memoryWire {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wires[addr]
}

// link returns the generators of a directed pair of endpoints.
func (m *Memory) link(from, to place) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := pair{from.addr, to.addr}
	l := m.links[key]
	if l == nil {
		l = newLink(m.seed, key)
		m.links[key] = l
	}
	return l
}

// place is the address of an endpoint and its host; faults may name either.
type place struct{ addr, host string }

func placeOf(host string, port int) place {
	return place{addr: net.JoinHostPort(host, strconv.Itoa(port)), host: host}
}

// splitAddr splits a "host:port" with a numeric port.
func splitAddr(addr string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%w: address %q: %w", ErrInvalid, addr, err)
	}
	if service == "" {
		return host, 0, nil
	}
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%w: port of %q: %w", ErrInvalid, addr, err)
	}
	return host, int(number), nil
}
