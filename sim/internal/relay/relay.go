// Package relay carries the TCP connections and UDP packets between the processes of a fleet on one
// machine, and breaks them: cuts of one direction or both, of everything or of one kind alone, loss
// of what is large, delay, loss, duplicates, reordering, resets. Every directed pair of processes
// has ports of its own, one for each kind of connection, so that the relay knows who sends what to
// whom, though all of it is encrypted.
//
//	relay.go   the ports and the faults of each direction
//	stream.go  TCP
//	packet.go  UDP
//	record.go  what was sent to a process
//	detour.go  the processes' side: a transport.Network that sends everything through the relay
package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/transport"
)

const (
	bindAttempts = 20                    // to find a number that is free for TCP and UDP
	dialLimit    = time.Second           // to the process itself, on the same machine
	heldBack     = 10 * time.Millisecond // at most, for a packet that is reordered
)

// Relay is the network between numbered processes. All methods are safe for concurrent use.
type Relay struct {
	ports [][][]*port // [from][to]; empty on the diagonal. The first one is gossip's, and carries the packets

	wg     sync.WaitGroup
	closed chan struct{}

	mu      sync.Mutex
	random  *rand.Rand
	faults  [][]transport.Faults
	changed chan struct{} // closed and replaced when faults change
	targets []string      // where each process listens; "" nowhere
	streams map[*stream]struct{}
	ended   bool
	records []record // of each process; nil: nothing is kept

	packets, dropped, conns atomic.Int64
}

// port is where process from finds process to with one kind of connection.
type port struct {
	r        *Relay
	from, to int
	kind     transport.Kind
	tcp      *net.TCPListener
	udp      *net.UDPConn // nil but for gossip
	waiting  atomic.Int32 // packets held back
}

// kinds are those that have ports of their own, gossip first. Other connections go by the last.
func kinds() []transport.Kind {
	return []transport.Kind{transport.KindGossip, transport.KindRaft, transport.KindProbe}
}

// cut reports whether so many bytes of a kind do not pass. 0 is what opens a connection.
func cut(f transport.Faults, kind transport.Kind, size int) bool {
	return f.Cut || f.Large > 0 && size > f.Large || kind == transport.KindGossip && f.CutGossip || kind == transport.KindRaft && f.CutRaft
}

// New opens the ports between that many processes, on loopback. The seed decides which packets are
// lost.
func New(processes int, seed uint64) (*Relay, error) {
	r := &Relay{
		closed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 7)), changed: make(chan struct{}),
		targets: make([]string, processes), streams: make(map[*stream]struct{}),
	}
	for from := range processes {
		r.ports = append(r.ports, make([][]*port, processes))
		r.faults = append(r.faults, make([]transport.Faults, processes))
		for to := range processes {
			if from == to {
				continue
			}
			for _, kind := range kinds() {
				p, err := r.open(from, to, kind)
				if err != nil {
					return nil, errors.Join(err, r.Close())
				}
				r.ports[from][to] = append(r.ports[from][to], p)
			}
		}
	}
	for p := range r.each {
		r.wg.Go(p.accept)
		if p.udp != nil {
			r.wg.Go(p.receive)
		}
	}
	return r, nil
}

func (r *Relay) each(yield func(*port) bool) {
	for _, row := range r.ports {
		for _, pair := range row {
			for _, p := range pair {
				if !yield(p) {
					return
				}
			}
		}
	}
}

func (r *Relay) open(from, to int, kind transport.Kind) (*port, error) {
	var failure error
	for range bindAttempts {
		tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, fmt.Errorf("relay: %w", err)
		}
		p := &port{r: r, from: from, to: to, kind: kind, tcp: tcp}
		if kind != transport.KindGossip {
			return p, nil
		}
		p.udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Addr().(*net.TCPAddr).Port})
		if err == nil {
			return p, nil
		}
		failure = err
		tcp.Close()
	}
	return nil, fmt.Errorf("relay: %w", failure)
}

// Route is where one process finds another: an address for each kind of connection, and the
// gossip's for packets.
type Route struct{ Gossip, Raft, Other string }

func (r Route) of(kind transport.Kind) string {
	switch kind {
	case transport.KindGossip:
		return r.Gossip
	case transport.KindRaft:
		return r.Raft
	}
	return r.Other
}

// Route is where process from finds process to.
func (r *Relay) Route(from, to int) Route {
	at := func(i int) string { return r.ports[from][to][i].tcp.Addr().String() }
	return Route{at(0), at(1), at(2)}
}

// Serve says where a process listens now, TCP and UDP; "" is nowhere: connections to it are
// refused.
func (r *Relay) Serve(process int, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets[process] = addr
}

// Set sets the faults of one direction, replacing earlier ones.
func (r *Relay) Set(from, to int, f transport.Faults) {
	r.change(func() { r.faults[from][to] = f })
}

// Calm ends all faults. What was held back arrives now.
func (r *Relay) Calm() {
	r.change(func() {
		for _, row := range r.faults {
			clear(row)
		}
	})
}

func (r *Relay) change(edit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Break resets every connection of a process, as a firewall that restarts does, and returns how
// many.
func (r *Relay) Break(process int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for s := range r.streams {
		if s.p.from == process || s.p.to == process {
			s.reset()
			n++
		}
	}
	return n
}

// Traffic is what the relay has carried so far.
type Traffic struct{ Conns, Packets, Dropped int64 }

// Traffic returns what the relay has carried so far.
func (r *Relay) Traffic() Traffic {
	return Traffic{r.conns.Load(), r.packets.Load(), r.dropped.Load()}
}

// Close ends all connections and frees the ports. Nothing of the relay is left when it returns.
// Idempotent.
func (r *Relay) Close() error {
	r.mu.Lock()
	first := !r.ended
	r.ended = true
	if first {
		close(r.closed)
	}
	for s := range r.streams {
		s.reset()
	}
	r.mu.Unlock()
	var err error
	if first {
		for p := range r.each {
			err = errors.Join(err, p.tcp.Close())
			if p.udp != nil {
				err = errors.Join(err, p.udp.Close())
			}
		}
	}
	r.wg.Wait()
	return err
}

func (r *Relay) faultsOf(from, to int) (transport.Faults, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults[from][to], r.changed
}

func (r *Relay) target(process int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.targets[process]
}

func (r *Relay) targetPort(process int) (netip.AddrPort, bool) {
	at, err := netip.ParseAddrPort(r.target(process))
	return at, err == nil
}

func (r *Relay) happens(probability float64) bool {
	if probability <= 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Float64() < probability
}

func (r *Relay) latency(f transport.Faults) time.Duration {
	if f.Jitter <= 0 {
		return f.Delay
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.Delay + time.Duration(r.random.Int64N(int64(f.Jitter)))
}
