package transport

import (
	"container/list"
	"net"
	"sync"
)

// lobby holds the connections that have not yet said who they are, at most max. When it is full, room is
// made by closing the oldest connection of the host that has the most: a flood displaces itself, and an
// honest node, which needs milliseconds, gets through.
type lobby struct {
	mu     sync.Mutex
	max    int
	guests list.List // of *guest, oldest first
	hosts  map[string]int
}

type guest struct {
	conn    *conn
	host    string
	element *list.Element // nil once it was shown out
}

func newLobby(max int) *lobby {
	return &lobby{max: max, hosts: make(map[string]int)}
}

// enter admits c, showing another out if there is no room.
func (l *lobby) enter(c *conn) *guest {
	g := &guest{conn: c, host: hostOf(c.RemoteAddr())}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests.Len() >= l.max {
		l.makeRoom()
	}
	g.element = l.guests.PushBack(g)
	l.hosts[g.host]++
	return g
}

// leave answers whether g was still there.
func (l *lobby) leave(g *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remove(g)
}

func (l *lobby) makeRoom() {
	most := 0
	for _, n := range l.hosts {
		most = max(most, n)
	}
	for element := l.guests.Front(); element != nil; element = element.Next() {
		if g := element.Value.(*guest); l.hosts[g.host] == most {
			l.remove(g)
			g.conn.abandon()
			return
		}
	}
}

func (l *lobby) remove(g *guest) bool {
	if g.element == nil {
		return false
	}
	l.guests.Remove(g.element)
	g.element = nil
	if l.hosts[g.host]--; l.hosts[g.host] == 0 {
		delete(l.hosts, g.host)
	}
	return true
}

// hostOf is the address without its port; IPv6 addresses of one /64 are one host, since whoever has one
// usually has them all.
func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}
