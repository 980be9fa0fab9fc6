package transport

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const pipeMax = 256 << 10 // bytes under way in one direction; writers wait beyond

// pipe carries the bytes of one direction. No goroutine waits under mu: one that waits for a mutex
// would stop the virtual time of a synctest bubble.
type pipe struct {
	stream   *stream
	from, to place
	link     *link         // nil until the first fault
	writing  chan struct{} // holds one value while a Write is under way, so that writes do not mix

	mu         sync.Mutex
	segments   []segment
	size       int // bytes in segments
	writerDone bool
	readerDone bool
	broken     bool
	readBy     time.Time
	writeBy    time.Time
	changed    chan struct{} // closed at the next change; nil without waits
}

// segment is the bytes of one write.
type segment struct {
	data  []byte
	due   time.Time // zero: at once
	wrote int       // bytes of the whole write
}

func newPipe(s *stream, from, to place) *pipe {
	return &pipe{stream: s, from: from, to: to, writing: make(chan struct{}, 1)}
}

// waiting has the events that may end a wait.
type waiting struct {
	changed <-chan struct{}
	rules   <-chan struct{} // nil: the wait does not depend on the rules
	until   time.Time       // zero: forever
}

func (w waiting) wait() {
	var expired <-chan time.Time
	if !w.until.IsZero() {
		timer := time.NewTimer(time.Until(w.until))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-w.changed:
	case <-w.rules:
	case <-expired:
	}
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		n, w, err := p.tryRead(b)
		if w == nil {
			return n, err
		}
		w.wait()
	}
}

// tryRead reads, fails, or returns the wait before the next try.
func (p *pipe) tryRead(b []byte) (int, *waiting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.readerDone:
		return 0, nil, net.ErrClosed
	case passed(p.readBy, now):
		return 0, nil, os.ErrDeadlineExceeded
	case p.broken:
		return 0, nil, errReset
	case len(b) == 0:
		return 0, nil, nil
	}
	cut, superseded := p.stream.net.cut(p.from, p.to, p.stream.kind)
	if cut || p.holds() {
		return 0, &waiting{p.watch(), superseded, p.readBy}, nil
	}
	if n := p.take(b, now); n > 0 {
		p.notify()
		return n, nil, nil
	}
	next := p.readBy
	if len(p.segments) > 0 {
		next = earlier(next, p.segments[0].due)
	} else if p.writerDone {
		return 0, nil, io.EOF
	}
	return 0, &waiting{p.watch(), nil, next}, nil
}

// holds reports whether the next bytes are of a write that is too large for now.
func (p *pipe) holds() bool {
	return p.stream.kind == KindClient && len(p.segments) > 0 && p.faults().loses(p.segments[0].wrote)
}

// take moves bytes that have arrived into b.
func (p *pipe) take(b []byte, now time.Time) (n int) {
	for n < len(b) && len(p.segments) > 0 && !p.holds() && !p.segments[0].due.After(now) {
		first := &p.segments[0]
		moved := copy(b[n:], first.data)
		n += moved
		p.size -= moved
		if first.data = first.data[moved:]; len(first.data) == 0 {
			*first = segment{}
			p.segments = p.segments[1:]
		}
	}
	return n
}

func (p *pipe) write(b []byte) (int, error) {
	p.writing <- struct{}{}
	defer func() { <-p.writing }()
	delay, reset := p.lots()
	if reset {
		p.stream.reset()
	}
	if p.stream.kind != KindClient && p.faults().loses(len(b)) {
		return len(b), nil
	}
	written := 0
	for {
		n, w, err := p.tryWrite(b[written:], len(b), delay)
		written += n
		if err != nil || w == nil && written == len(b) {
			return written, err
		}
		if w != nil {
			w.wait()
		}
	}
}

func (p *pipe) faults() Faults { return p.stream.net.rules.Load().of(p.from, p.to, p.stream.kind) }

// lots draws the effect of the present faults on one write.
func (p *pipe) lots() (time.Duration, bool) {
	faults := p.faults()
	if faults.Delay+faults.Jitter == 0 && faults.Reset == 0 {
		return 0, false
	}
	if p.link == nil { // guarded by writing
		p.link = p.stream.net.link(p.from, p.to)
	}
	return p.link.stream(faults)
}

// tryWrite writes the part of b, of a write of so many bytes, for which there is room, fails, or
// returns the wait before the next try.
func (p *pipe) tryWrite(b []byte, wrote int, delay time.Duration) (int, *waiting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.writerDone:
		return 0, nil, net.ErrClosed
	case passed(p.writeBy, now):
		return 0, nil, os.ErrDeadlineExceeded
	case p.broken:
		return 0, nil, errReset
	}
	var superseded <-chan struct{}
	if p.readerDone { // the writer learns of it unless a cut hides it
		there, changed := p.stream.net.cut(p.from, p.to, p.stream.kind)
		back, _ := p.stream.net.cut(p.to, p.from, p.stream.kind)
		if !there && !back {
			return 0, nil, syscall.EPIPE
		}
		superseded = changed
	}
	room := pipeMax - p.size
	if room == 0 && len(b) > 0 {
		return 0, &waiting{p.watch(), superseded, p.writeBy}, nil
	}
	b = b[:min(room, len(b))]
	if len(b) > 0 {
		due := time.Time{}
		if delay > 0 {
			due = now.Add(delay)
		}
		p.size += len(b)
		p.segments = append(p.segments, segment{slices.Clone(b), due, wrote})
		p.notify()
	}
	return len(b), nil, nil
}

// reset loses the bytes under way and fails both ends.
func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken, p.segments, p.size = true, nil, 0
	p.notify()
}

// closeWriter reports whether this was the first time.
func (p *pipe) closeWriter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.writerDone
	p.writerDone = true
	p.notify()
	return first
}

func (p *pipe) writerGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writerDone
}

func (p *pipe) closeReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerDone, p.segments, p.size = true, nil, 0
	p.notify()
}

// setDeadline sets readBy or writeBy, for the end with this done flag.
func (p *pipe) setDeadline(by *time.Time, t time.Time, done *bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	*by = t
	p.notify()
	if *done {
		return net.ErrClosed
	}
	return nil
}

// watch returns a channel that closes at the next change.
func (p *pipe) watch() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *pipe) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// earlier is the earlier of a deadline, zero meaning none, and an instant.
func earlier(deadline, instant time.Time) time.Time {
	if deadline.IsZero() || instant.Before(deadline) {
		return instant
	}
	return deadline
}
