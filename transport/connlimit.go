package transport

import (
	"net"
	"sync"
	"time"
)

// connLimit is a bounded set of accepted connections. A connection beyond the bound displaces one
// of the host that has the most: the one with the lowest age, the event at which it came or was last
// heard. So a flood displaces itself, and connections of other hosts or in use stay.
type connLimit struct {
	max     int
	hostMax int // of one host
	age     func(*conn) int64

	mu    sync.Mutex
	size  int
	hosts map[string]map[*conn]struct{}
}

func newConnLimit(max, hostMax int, age func(*conn) int64) *connLimit {
	return &connLimit{max: max, hostMax: hostMax, age: age, hosts: make(map[string]map[*conn]struct{})}
}

// enter admits c and returns the connection that it displaces, if any.
func (w *connLimit) enter(c *conn) (evicted *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.hosts[c.host]) >= w.hostMax:
		evicted = w.choose(c.host)
	case w.size >= w.max:
		evicted = w.choose(w.fullest())
	}
	if evicted != nil {
		w.remove(evicted)
	}
	if w.hosts[c.host] == nil {
		w.hosts[c.host] = make(map[*conn]struct{})
	}
	w.hosts[c.host][c] = struct{}{}
	w.size++
	return evicted
}

// displace removes the connection that one beyond the bound would displace, if it came before an
// instant. It returns nil otherwise.
func (w *connLimit) displace(before time.Time) (evicted *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	evicted = w.choose(w.fullest())
	if evicted == nil || !evicted.at.Before(before) {
		return nil
	}
	w.remove(evicted)
	return evicted
}

// leave reports whether c was in the set.
func (w *connLimit) leave(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(c)
}

func (w *connLimit) fullest() (host string) {
	most := 0
	for h, conns := range w.hosts {
		if len(conns) > most {
			host, most = h, len(conns)
		}
	}
	return host
}

func (w *connLimit) choose(host string) (oldest *conn) {
	lowest := int64(0)
	for c := range w.hosts[host] {
		if age := w.age(c); oldest == nil || age < lowest {
			oldest, lowest = c, age
		}
	}
	return oldest
}

func (w *connLimit) remove(c *conn) bool {
	conns := w.hosts[c.host]
	if _, ok := conns[c]; !ok {
		return false
	}
	w.size--
	if delete(conns, c); len(conns) == 0 {
		delete(w.hosts, c.host)
	}
	return true
}

// HostOf is the address without its port. IPv6 addresses of one /64 are one host: a machine usually
// has all of them.
func HostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}
