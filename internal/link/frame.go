package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Kind is what a frame is.
type Kind byte

// The kinds; their numbers are part of the wire format.
const (
	KindChallenge Kind = iota + 1
	KindOpen
	KindWelcome
	KindRefuse
	KindPropose
	KindAsk
	KindList
	KindNext
	KindReady
	KindCancel
	KindReply
	KindEvents
	KindGap
	KindPing
	KindPong
	KindWatch
	KindUnwatch
	KindFleet
	KindRemove
	KindBackup
	KindTransfer
	KindAges // only to a client that has asked for it: AskAges
)

const (
	// RequestMax bounds a frame to a replica, in bytes: more than the largest command and question.
	RequestMax = 2 << 20
	// ReplyMax bounds a frame to a client: more than a page.
	ReplyMax = 8 << 20
	// BufferMax bounds what waits to be written to a connection.
	BufferMax = 16 << 20

	lengthBytes = 4
	headBytes   = 1 + 8
)

var (
	// ErrMalformed: the other side has sent what no version sends.
	ErrMalformed = errors.New("holdfast: malformed frame")
	// ErrSlow: the other side does not read.
	ErrSlow = errors.New("holdfast: the other side does not read what is sent to it")
)

// Frame is one that was read. Its body is good until the next one is read.
type Frame struct {
	Kind Kind
	Call uint64
	Body []byte
}

// Reader reads frames.
type Reader struct {
	from io.Reader
	max  int
	head [lengthBytes + headBytes]byte
	body []byte
}

// NewReader returns a reader of frames of so many bytes at most.
func NewReader(from io.Reader, most int) *Reader { return &Reader{from: from, max: most} }

// bodyKept is the room for bodies that is used again; firstRead is read of a long one before more
// room is made: a length alone takes no memory.
const (
	bodyKept  = 64 << 10
	firstRead = 64 << 10
)

// Next reads a frame. The error wraps ErrMalformed, or is that of the connection.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.from, r.head[:]); err != nil {
		return Frame{}, err
	}
	size := int(binary.BigEndian.Uint32(r.head[:]))
	if size < headBytes || size > r.max {
		return Frame{}, fmt.Errorf("%w: of %d bytes, at most %d", ErrMalformed, size, r.max)
	}
	size -= headBytes
	if cap(r.body) > bodyKept {
		r.body = nil
	}
	r.body = r.body[:0]
	for len(r.body) < size {
		from := len(r.body)
		part := min(size-from, max(firstRead, from))
		r.body = append(r.body, make([]byte, part)...)
		if _, err := io.ReadFull(r.from, r.body[from:]); err != nil {
			return Frame{}, err
		}
	}
	return Frame{Kind: Kind(r.head[lengthBytes]), Call: binary.BigEndian.Uint64(r.head[lengthBytes+1:]), Body: r.body}, nil
}

// AppendFrame appends a frame.
func AppendFrame(b []byte, kind Kind, call uint64, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(headBytes+len(body)))
	b = binary.BigEndian.AppendUint64(append(b, byte(kind)), call)
	return append(b, body...)
}

// Writer gathers frames, and writes what has gathered at once. One goroutine writes at a time, and goes
// on until no frame waits: that of Run, or that of a SendNow.
type Writer struct {
	to   net.Conn
	wake chan struct{}

	mu      sync.Mutex
	frames  []byte
	spare   []byte
	writing bool
	failed  error // of a write
	err     error // what has ended the writer
}

// NewWriter returns a writer. Its Run writes.
func NewWriter(to net.Conn) *Writer { return &Writer{to: to, wake: make(chan struct{}, 1)} }

// Send queues a frame, and does not wait. The error is ErrSlow, or what has ended the writer; then
// nothing of the frame is sent.
func (w *Writer) Send(kind Kind, call uint64, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.add(kind, call, body)
	if err == nil {
		w.signal()
	}
	return err
}

// SendNow is Send that writes the frame, and waits for the connection, unless another goroutine is
// writing: that one writes it, too. Run returns the error of the connection.
func (w *Writer) SendNow(kind Kind, call uint64, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.add(kind, call, body); err != nil {
		return err
	}
	if w.write() != nil {
		w.signal()
	}
	return nil
}

func (w *Writer) add(kind Kind, call uint64, body []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case len(w.frames)+len(body) > BufferMax:
		return ErrSlow
	}
	w.frames = AppendFrame(w.frames, kind, call, body)
	return nil
}

// signal wakes Run.
func (w *Writer) signal() {
	if w.err != nil { // End has woken it
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Full reports whether so much waits that more news would only make the other side later.
func (w *Writer) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.frames) > BufferMax/4
}

// End ends Run and every later Send with err, after what has been queued. A second call does
// nothing.
func (w *Writer) End(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.wake)
	}
}

// Run writes until End or until the connection fails.
func (w *Writer) Run() error {
	for range w.wake {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.flush()
}

func (w *Writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write()
}

// write writes until no frame waits, unless another goroutine does. The caller holds mu, which is free
// meanwhile.
func (w *Writer) write() error {
	if w.writing {
		return nil
	}
	w.writing = true
	for len(w.frames) > 0 && w.failed == nil {
		b := w.frames
		w.frames, w.spare = w.spare[:0], nil // what is being written must not be what add appends to
		w.mu.Unlock()
		_, err := w.to.Write(b)
		if cap(b) > bodyKept {
			b = nil
		}
		w.mu.Lock()
		w.spare, w.failed = b, err
	}
	w.writing = false
	return w.failed
}
