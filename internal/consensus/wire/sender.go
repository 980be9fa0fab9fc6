package wire

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/transport"
)

// sender is an outgoing connection, for messages or for a snapshot. One goroutine of the engine
// uses it at a time. A connection whose frames are not acknowledged for a while is given up: after
// a partition TCP may hold back for a minute what it has accepted.
type sender struct {
	carrier *Carrier
	ctx     context.Context // the engine's: its end ends the connection
	addr    string
	conn    net.Conn
	unhook  func() bool
	gone    chan struct{} // closed when the other side has closed
	ended   error         // why; set before gone is closed
	buffer  []byte
	size    int // of the last frame

	// Instants, counted from made: those of a wall clock would end the connection when it is set.
	made  time.Time
	sent  time.Duration // the last frame
	since time.Duration // the first frame after a pause: nothing was under way
	acked atomic.Int64  // the last acknowledgement
}

const (
	batchBytesBest = 4 << 20                // a larger batch is sent in several frames
	ackEvery       = 250 * time.Millisecond // a receiver acknowledges no more often
	paceLeast      = 1 << 20                // bytes per second of a slow connection, beyond its timeout
	ackPause       = time.Second            // no frame for so long is a pause
)

// listen reads answers until the other side closes.
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
				s.carrier.cfg.Expelled(fmt.Errorf("%w, says the replica at %v", ErrSuperseded, s.conn.RemoteAddr()))
			case answerForgetful:
				s.carrier.cfg.Expelled(fmt.Errorf("%w, says the replica at %v", ErrForgetful, s.conn.RemoteAddr()))
			case answerAhead:
				s.carrier.cfg.Expelled(fmt.Errorf("%w, says the raft leader at %v", ErrAhead, s.conn.RemoteAddr()))
			}
		}
		if err != nil {
			s.ended = err
			return
		}
		s.acked.Store(int64(time.Since(s.made)))
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

// SendMessageBatch sends the messages in order. It connects again if the other side closed an idle
// connection: that replica may be back, and the engine would drop these messages and send no others
// for a second. Followers have nothing to say to each other until they vote.
func (s *sender) SendMessageBatch(batch raftpb.MessageBatch) error {
	err := s.sendBatch(batch)
	if err != nil {
		s.carrier.lost(s.addr, err)
	}
	return err
}

func (s *sender) sendBatch(batch raftpb.MessageBatch) error {
	if batch.Requests = without(batch.Requests, raftpb.RequestPreVote, s.carrier.cfg.Yields); len(batch.Requests) == 0 {
		return nil
	}
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
	s.carrier.Nodes.sending(batch.Requests, s.carrier.cfg.Disk.Last())
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

// without leaves out the messages of a type if drop says so, which is asked where there are any; nil: never.
func without(messages []raftpb.Message, of raftpb.MessageType, drop func() bool) []raftpb.Message {
	is := func(m raftpb.Message) bool { return m.Type == of }
	if drop == nil || !slices.ContainsFunc(messages, is) || !drop() {
		return messages
	}
	return slices.DeleteFunc(slices.Clone(messages), is) // the engine's own slice stays as it is
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
		grown := s.carrier.cfg.Disk.Reaches(committed)
		if grown == nil {
			return nil
		}
		select {
		case <-grown:
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-s.carrier.ctx.Done():
			return errCarrierClosed
		}
	}
}

// SendChunk sends a chunk of a snapshot, with the name of its file but not its local path. It
// returns the refusal of an earlier chunk.
func (s *sender) SendChunk(chunk raftpb.Chunk) error {
	chunk.Filepath = filepath.Base(chunk.Filepath)
	s.carrier.Nodes.snapshotSent(chunk.ReplicaID)
	s.carrier.Nodes.sendingSnapshot(chunk.ReplicaID, chunk.Index)
	return s.send(frameChunk, &chunk, chunkTimeout)
}

// payload is the content of a frame.
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
	s.buffer = slices.Grow(s.buffer[:0], frameHeader+clockBytes+frameHeader+size)
	before := s.buffer
	if batch, ok := p.(*raftpb.MessageBatch); ok {
		before = s.carrier.clock(batch.Requests[0].To).appendTo(before)
	}
	frame := before[len(before) : len(before)+frameHeader+size]
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
	if _, err = s.conn.Write(before[:len(before)+len(frame)]); transport.Ended(err) {
		select {
		case <-s.gone:
			return s.closed() // may say more: with TLS a refusal is what is read first
		case <-time.After(ackEvery):
		}
	}
	return err
}

// closed is the error of a connection that is gone.
func (s *sender) closed() error {
	return fmt.Errorf("holdfast: connection closed by the other replica: %w", s.ended)
}

// leftIdle reports whether the other side has closed the connection in a pause.
func (s *sender) leftIdle() bool {
	select {
	case <-s.gone:
		return time.Since(s.made)-s.sent > ackPause
	default:
		return false
	}
}

// usable returns an error if nothing can be sent.
func (s *sender) usable(patience time.Duration) error {
	if s.carrier.silent() {
		return errCarrierClosed
	}
	select {
	case <-s.gone:
		return s.closed()
	default:
	}
	now, acked := time.Since(s.made), time.Duration(s.acked.Load())
	answered := s.sent-acked < ackEvery // a frame that came sooner after an acknowledgement gets none
	if answered && now-s.sent > ackPause {
		s.since = now
	}
	s.sent = now
	if now-max(acked, s.since) > patience {
		return fmt.Errorf("holdfast: replica at %v does not acknowledge", s.conn.RemoteAddr())
	}
	return nil
}

// GetConnection connects to a replica for messages, at an address that Registry.Resolve has returned.
func (c *Carrier) GetConnection(ctx context.Context, addr string) (raftio.IConnection, error) {
	addr = unmarked(addr)
	s, err := c.dial(ctx, addr)
	if err != nil {
		c.lost(addr, err)
		return nil, err
	}
	return s, nil
}

// lost notes that a message could not be sent, unless this replica is muted.
func (c *Carrier) lost(addr string, err error) {
	if !c.silent() {
		c.reach.failed(addr, err, time.Now())
	}
}

// Unreached is why the last message to a replica could not be sent, nil if it could.
func (c *Carrier) Unreached(replica uint64) error {
	addr, err := c.Nodes.Locate(replica)
	if err != nil {
		return err
	}
	return c.reach.cause(addr)
}

// GetSnapshotConnection connects to a replica for a snapshot, as GetConnection does.
func (c *Carrier) GetSnapshotConnection(ctx context.Context, addr string) (raftio.ISnapshotConnection, error) {
	s, err := c.dial(ctx, unmarked(addr))
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Carrier) dial(ctx context.Context, addr string) (*sender, error) {
	s := &sender{carrier: c, ctx: ctx, addr: addr, made: time.Now()}
	return s, c.connect(s)
}

// connect gives s a new connection, and greets.
func (c *Carrier) connect(s *sender) error {
	if c.silent() {
		return errCarrierClosed
	}
	dialing, cancel := context.WithTimeout(s.ctx, dialTimeout)
	defer cancel()
	conn, err := c.cfg.Endpoint.Dial(dialing, s.addr, transport.KindRaft)
	if err != nil {
		return fmt.Errorf("holdfast: connecting to replica at %s: %w", s.addr, err)
	}
	conn = c.cfg.Traffic.Conn(conn)
	s.conn, s.gone, s.size = conn, make(chan struct{}), 0
	s.acked.Store(int64(time.Since(s.made)))
	if !c.keep(conn, s.listen) {
		conn.Close()
		s.ended = errCarrierClosed
		close(s.gone) // listen does not run
		return errCarrierClosed
	}
	s.unhook = context.AfterFunc(s.ctx, func() { conn.Close() }) // the engine waits for its senders to return
	c.greets(s.addr)
	if err := s.send(frameGreeting, c.greeting(), batchTimeout); err != nil {
		s.Close()
		return err
	}
	return nil
}

// greeting is the greeting of a connection made now.
func (c *Carrier) greeting() greeting {
	g := c.self
	g.addr, g.wall = c.Nodes.address(g.node.String()), c.cfg.Wall()
	return g
}

const introduceTime = presentFor / 2 // for an answer

// Introduce greets the replica at an address, and waits for its answers.
func (c *Carrier) Introduce(ctx context.Context, addr string) {
	s, err := c.dial(ctx, addr)
	if err != nil {
		return
	}
	defer s.Close()
	select {
	case <-s.gone:
	case <-time.After(introduceTime):
	case <-ctx.Done():
	}
}
