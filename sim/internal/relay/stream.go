package relay

import (
	"net"
	"sync"
	"time"
)

const (
	chunkMax  = 32 << 10
	chunksMax = 32 // of one direction that are on their way; then the sender has to wait
)

type stream struct {
	p      *port
	client *net.TCPConn

	once   sync.Once
	broken chan struct{} // closed by reset
	sent   []byte        // by the client, under the relay's mutex: see record.go

	mu     sync.Mutex
	server *net.TCPConn // nil until the connection stands
}

type chunk struct {
	data []byte
	due  time.Time
	end  bool
}

// accept takes the connections of one pair until the port closes.
func (p *port) accept() {
	for {
		conn, err := p.tcp.AcceptTCP()
		if err != nil {
			select {
			case <-p.r.closed:
				return
			case <-time.After(10 * time.Millisecond): // out of descriptors, perhaps
				continue
			}
		}
		s := &stream{p: p, client: conn, broken: make(chan struct{})}
		p.r.mu.Lock()
		if p.r.ended {
			p.r.mu.Unlock()
			conn.Close()
			return
		}
		p.r.streams[s] = struct{}{}
		p.r.wg.Go(s.run)
		p.r.mu.Unlock()
		p.r.conns.Add(1)
	}
}

func (s *stream) reset() {
	s.once.Do(func() {
		close(s.broken)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range []*net.TCPConn{s.client, s.server} {
			if c != nil {
				_ = c.SetLinger(0)
				c.Close()
			}
		}
	})
}

func (s *stream) run() {
	r := s.p.r
	defer func() {
		s.reset()
		r.mu.Lock()
		delete(r.streams, s)
		r.mu.Unlock()
	}()
	// The handshake needs both directions.
	if !s.passes(s.p.from, s.p.to, 0) || !s.passes(s.p.to, s.p.from, 0) {
		return
	}
	conn, err := net.DialTimeout("tcp", r.target(s.p.to), dialLimit)
	if err != nil {
		return // refused
	}
	server := conn.(*net.TCPConn)
	s.mu.Lock()
	select {
	case <-s.broken:
		s.mu.Unlock()
		server.Close()
		return
	default:
	}
	s.server = server
	s.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { s.pump(s.client, server, s.p.from, s.p.to) })
	both.Go(func() { s.pump(server, s.client, s.p.to, s.p.from) })
	both.Wait()
}

// passes waits until so many bytes pass in a direction; false: the connection is broken. What is
// larger than the network carries is sent again and again, and what comes after it waits.
func (s *stream) passes(from, to, size int) bool {
	for {
		f, changed := s.p.r.faultsOf(from, to)
		if !cut(f, s.p.kind, size) {
			return true
		}
		select {
		case <-changed:
		case <-s.broken:
			return false
		}
	}
}

func (s *stream) pump(src, dst *net.TCPConn, from, to int) {
	queue := make(chan chunk, chunksMax)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		s.read(src, queue, from, to)
	})
	for c := range queue {
		if !passed(time.Until(c.due), s.broken) || !s.passes(from, to, len(c.data)) {
			break
		}
		if c.end {
			dst.Close()
		} else if f, _ := s.p.r.faultsOf(from, to); s.p.r.happens(f.Reset) {
			s.reset()
		} else if _, err := dst.Write(c.data); err != nil {
			// The other direction brings the news to the sender.
			break
		}
	}
	for range queue { // lets the reader end
	}
	reading.Wait()
}

func (s *stream) read(src *net.TCPConn, queue chan<- chunk, from, to int) {
	var last time.Time
	for {
		buffer := make([]byte, chunkMax)
		n, err := src.Read(buffer)
		f, _ := s.p.r.faultsOf(from, to)
		due := time.Now().Add(s.p.r.latency(f))
		if due.Before(last) {
			due = last // in order
		}
		last = due
		if n > 0 {
			if to == s.p.to {
				s.p.r.keep(s, buffer[:n])
			}
			queue <- chunk{data: buffer[:n], due: due}
		}
		if err != nil {
			queue <- chunk{due: due, end: true}
			return
		}
	}
}

func passed(d time.Duration, over <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}
