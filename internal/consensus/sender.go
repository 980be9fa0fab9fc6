package consensus

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// sender is an outgoing connection, for messages or for a snapshot. One goroutine of the engine
// uses it at a time. A connection whose frames are not acknowledged for a while is given up: after
// a partition, TCP may hold back for a minute what it has taken without complaint.
type sender struct {
	carrier *carrier
	ctx     context.Context // the engine's: its end ends the connection
	addr    string
	conn    net.Conn
	unhook  func() bool
	gone    chan struct{} // closed when the other side has closed
	buffer  []byte
	sent    time.Time    // the last frame
	size    int          // of the last frame
	acked   atomic.Int64 // the last acknowledgement, or the first frame after a pause (unix nanoseconds)
}

const (
	batchBytesBest = 4 << 20                // a batch larger than this is sent in several frames
	ackEvery       = 250 * time.Millisecond // a receiver acknowledges no more often
	paceLeast      = 1 << 20                // bytes per second that a connection must manage, beyond its timeout
	ackPause       = time.Second            // no frame for so long is a pause
)

// listen reads answers until the other side is gone.
func (s *sender) listen() {
	defer close(s.gone)
	var b [16]byte
	heard := false
	for {
		n, err := s.conn.Read(b[:])
		if n > 0 && !heard {
			heard = true
			s.carrier.reach.heard(s.addr, time.Now())
		}
		for _, answer := range b[:n] {
			switch answer {
			case answerSuperseded:
				s.carrier.expelled(fmt.Errorf("%w, says the replica at %v", ErrSuperseded, s.conn.RemoteAddr()))
			case answerForgetful:
				s.carrier.expelled(fmt.Errorf("%w, says the replica at %v", ErrForgetful, s.conn.RemoteAddr()))
			}
		}
		if err != nil {
			return
		}
		s.acked.Store(time.Now().UnixNano())
	}
}

// Close ends the connection.
func (s *sender) Close() {
	if s.unhook != nil {
		s.unhook()
	}
	s.conn.Close()
	<-s.gone
}

// SendMessageBatch sends the messages in order. If the other side went while there was nothing to
// send, it connects again: it may have come back since, and the engine would lose these messages
// and send no others for a second. Replicas that follow have nothing to say to each other until
// they vote.
func (s *sender) SendMessageBatch(batch raftpb.MessageBatch) error {
	err := s.sendBatch(batch)
	if err != nil {
		s.carrier.lost(s.addr, err)
	}
	return err
}

func (s *sender) sendBatch(batch raftpb.MessageBatch) error {
	if s.leftIdle() {
		s.Close()
		if err := s.carrier.connect(s); err != nil {
			return err
		}
	}
	if err := s.backed(batch.Requests); err != nil {
		return err
	}
	s.carrier.vouch(batch.Requests)
	rest := merge(batch.Requests)
	for len(rest) > 0 {
		n, size := 1, rest[0].SizeUpperLimit()
		for n < len(rest) && n < messagesMax && size < batchBytesBest {
			size += rest[n].SizeUpperLimit()
			n++
		}
		batch.Requests, rest = rest[:n], rest[n:]
		if err := s.send(frameBatch, &batch, batchTimeout); err != nil {
			return err
		}
	}
	return nil
}

// backed returns when what the messages say to be committed is on this replica's disk. The engine
// replicates entries before it has synced them, which is safe as long as they are not committed:
// that takes another voter's acknowledgement, and by then they are synced. But where this replica
// is the only voter, the engine commits them at once, and a replica that only follows would
// acknowledge what a power cut here takes back. (A standby of a group of one answered OK while the
// voter's disk hung.)
func (s *sender) backed(messages []raftpb.Message) error {
	committed := uint64(0)
	for i := range messages {
		if messages[i].Type == raftpb.Replicate {
			committed = max(committed, messages[i].Commit)
		}
	}
	for {
		grown := s.carrier.depth.reaches(committed)
		if grown == nil {
			return nil
		}
		select {
		case <-grown:
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-s.carrier.muted:
			return errCarrierClosed
		}
	}
}

// SendChunk sends a piece of a snapshot, with the name of its file and not where that lies here.
// That an earlier one was refused shows here.
func (s *sender) SendChunk(chunk raftpb.Chunk) error {
	chunk.Filepath = filepath.Base(chunk.Filepath)
	return s.send(frameChunk, &chunk, chunkTimeout)
}

// payload is what a frame carries.
type payload interface {
	Size() int
	MarshalTo([]byte) (int, error)
}

func (s *sender) send(kind byte, p payload, patience time.Duration) error {
	size := p.Size()
	patience += time.Duration(s.size+size) * time.Second / paceLeast
	if err := s.usable(patience); err != nil {
		return err
	}
	if cap(s.buffer) > bufferKept {
		s.buffer = nil
	}
	s.buffer = slices.Grow(s.buffer[:0], frameHeader+size)
	frame := s.buffer[:frameHeader+size]
	n, err := p.MarshalTo(frame[frameHeader:])
	if err != nil {
		return fmt.Errorf("holdfast: encoding: %w", err)
	}
	frame = frame[:frameHeader+n]
	putHeader(frame, kind)
	s.size = n
	if err := s.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = s.conn.Write(frame)
	return err
}

// leftIdle reports whether the other side has closed the connection in a pause.
func (s *sender) leftIdle() bool {
	select {
	case <-s.gone:
		return time.Since(s.sent) > ackPause
	default:
		return false
	}
}

// usable reports why nothing can be sent.
func (s *sender) usable(patience time.Duration) error {
	if s.carrier.silent() {
		return errCarrierClosed
	}
	select {
	case <-s.gone:
		return fmt.Errorf("holdfast: connection closed by the other replica: %w", net.ErrClosed)
	default:
	}
	now := time.Now()
	if now.Sub(s.sent) > ackPause {
		s.acked.Store(now.UnixNano())
	}
	s.sent = now
	if now.Sub(time.Unix(0, s.acked.Load())) > patience {
		return fmt.Errorf("holdfast: replica at %v does not acknowledge", s.conn.RemoteAddr())
	}
	return nil
}
