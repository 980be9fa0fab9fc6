package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/engine"
)

// receive delivers the frames of a connection until it ends or has a frame that is refused. Then
// the connection is closed, because no later frame of it can be trusted.
func (c *Carrier) receive(conn net.Conn) {
	pace := pacer{conn: conn}
	frames := frameReader{r: conn, begun: pace.begun, memory: &c.memory, first: true}
	defer frames.close()
	from, err := c.welcome(&frames, &pace)
	if err == nil {
		defer func() { c.ended(from, err) }()
	}
	var answered time.Time
	for err == nil {
		var answers bool
		if answers, err = c.receiveOne(&frames, from); err != nil {
			break
		}
		if err = pace.ended(); err != nil {
			break
		}
		if now := time.Now(); answers && now.Sub(answered) >= ackEvery {
			answered = now
			if err = c.Nodes.current(from.node, from.incarnation); err == nil {
				err = reply(conn, answerReceived, now)
			}
		}
	}
	reject(conn, err)
	c.logClose(conn, err)
}

// welcome reads the greeting and admits the sender. Only then the connection gets a large buffer.
func (c *Carrier) welcome(frames *frameReader, pace *pacer) (*inbound, error) {
	if err := pace.begun(0); err != nil {
		return nil, err
	}
	_, payload, err := frames.next()
	if err != nil {
		return nil, err
	}
	frames.first = false
	came := time.Now()
	hello, err := decodeGreeting(payload)
	switch {
	case err != nil:
		return nil, err
	case hello.deployment != c.validator.deployment:
		return nil, refuse("greeting of another cluster")
	case hello.node.String() == c.validator.node:
		return nil, refuse("greeting from this node itself")
	}
	if err := pace.ended(); err != nil {
		return nil, err
	}
	select {
	case <-c.ready:
	case <-c.ctx.Done():
		return nil, errCarrierClosed
	}
	from, err := c.Nodes.admit(hello, func() { pace.conn.Close() })
	if err == nil {
		c.cfg.Told(hello.node.String(), hello.wall, came)
		c.risen(from)
		if from.follows.Succeeded {
			c.cfg.Ended(from.follows)
		}
		pace.buffered = bufio.NewReaderSize(pace.conn, 64<<10)
		frames.r = pace.buffered
	}
	return from, err
}

// receiveOne delivers a frame, with the clock that stands before it: a clock alone is not acknowledged.
// It skips what a later version says, which gets no answer.
func (c *Carrier) receiveOne(frames *frameReader, from *inbound) (answers bool, err error) {
	for {
		kind, payload, err := frames.next()
		switch {
		case err != nil:
			return false, err
		case kind == frameWord:
			return false, c.told(payload, from)
		case later(uint32(kind)):
			return false, nil
		}
		if err := c.deliver(kind, payload, from); err != nil || kind != frameClock {
			return true, err
		}
	}
}

func reply(conn net.Conn, what byte, now time.Time) error {
	if err := conn.SetWriteDeadline(now.Add(batchTimeout)); err != nil {
		return err
	}
	_, err := conn.Write([]byte{what})
	return err
}

// reject answers a sender that is refused for what it is. It reads on for a moment, because closing
// a connection with unread bytes discards the answer.
func reject(conn net.Conn, err error) {
	what := answerForgetful
	switch {
	case errors.Is(err, ErrSuperseded):
		what = answerSuperseded
	case errors.Is(err, ErrAhead):
		what = answerAhead
	case !errors.Is(err, ErrForgetful):
		return
	}
	now := time.Now()
	if reply(conn, what, now) == nil && conn.SetReadDeadline(now.Add(rejectTime)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

const rejectTime = time.Second // for a refusal to arrive

// pacer ends connections that begin a frame and do not complete it: senders give up as soon.
// Between frames a connection may be quiet.
type pacer struct {
	conn     net.Conn
	buffered *bufio.Reader // nil before the first frame
	limited  bool
}

func (p *pacer) begun(size int) error {
	if p.buffered != nil && p.buffered.Buffered() >= size {
		return nil
	}
	p.limited = true
	return p.conn.SetReadDeadline(time.Now().Add(frameTimeout + time.Duration(size)*time.Second/paceLeast))
}

func (p *pacer) ended() error {
	if !p.limited {
		return nil
	}
	p.limited = false
	return p.conn.SetReadDeadline(time.Time{})
}

func (c *Carrier) logClose(conn net.Conn, err error) {
	bad := false
	for _, reason := range []error{errFrame, errRefused, engine.ErrInvariant, ErrSuperseded, ErrForgetful, ErrAhead, os.ErrDeadlineExceeded} {
		bad = bad || errors.Is(err, reason)
	}
	if !bad || errors.Is(err, io.ErrUnexpectedEOF) {
		return // the connection ended, or this replica closes
	}
	c.refused.Add(1)
	if unreported, ok := c.warnings.Take(time.Now()); ok {
		c.cfg.Logger.Warn("raft connection closed", "component", "raft", "from", conn.RemoteAddr().String(), "error", err, "unreported", unreported)
	}
}

// errRefusedChunk is the cause when the engine refuses the rest of a snapshot.
var errRefusedChunk = errors.New("holdfast: snapshot refused")

// deliver is the only way of a frame from the network to the engine, always in this order: the
// outline is checked, the frame decoded and validated, compared with what is known of its sender,
// and delivered. A frame that fails a step reaches no later one.
//
// A batch loses the messages for another life of this node, the proposals that are not its sender's
// own, and those that come before the log is open, which Config.Hold keeps.
func (c *Carrier) deliver(kind byte, payload []byte, from *inbound) error {
	if c.silent() {
		return errCarrierClosed
	}
	if kind == frameWithdrawal {
		c.Nodes.withdraw(from)
		return net.ErrClosed
	}
	if kind == frameClock {
		clock, err := decodeClock(payload)
		if err == nil {
			c.compare(clock, from)
		}
		return err
	}
	if kind == frameChunk {
		chunk, err := c.decodeChunk(payload)
		if err != nil {
			return err
		}
		if chunk.From != from.replica {
			return refuse("snapshot from replica %x by way of %x", chunk.From, from.replica)
		}
		return engine.Guard(func() error {
			if !c.chunks(chunk) {
				return errRefusedChunk
			}
			return nil
		})
	}
	batch, sender, err := c.validator.decodeBatch(payload)
	if err != nil {
		return err
	}
	if sender != from.replica {
		return refuse("batch from replica %x by way of %x", sender, from.replica)
	}
	batch.Requests = addressed(batch.Requests, c.validator.replica)
	if err := c.Nodes.accept(from, batch.Requests); err != nil {
		return err
	}
	c.risen(from)
	batch.Requests = without(batch.Requests, raftpb.TimeoutNow, c.cfg.Yields)
	batch.Requests = without(batch.Requests, raftpb.RequestPreVote, func() bool { return c.cfg.Shuns != nil && c.cfg.Shuns(from.node) })
	batch.Requests = ownProposals(batch.Requests, fsm.Process{Node: from.node, Incarnation: from.incarnation})
	if len(batch.Requests) == 0 {
		return nil
	}
	batch.SourceAddress = "" // or the engine would make the sender a member in the registry
	if batch.Requests = c.cfg.Hold(batch.Requests); len(batch.Requests) == 0 {
		return nil
	}
	i := slices.IndexFunc(batch.Requests, func(m raftpb.Message) bool { return m.Type == raftpb.TimeoutNow })
	if i >= 0 {
		defer c.cfg.Chosen(batch.Requests[i].Term)
	}
	return engine.Guard(func() error {
		c.messages(batch)
		return nil
	})
}

// addressed drops messages for another life of this node: their sender does not know this one yet.
func addressed(messages []raftpb.Message, replica uint64) []raftpb.Message {
	return slices.DeleteFunc(messages, func(m raftpb.Message) bool { return m.To != replica })
}

func (c *Carrier) decodeChunk(payload []byte) (chunk raftpb.Chunk, err error) {
	if err := outlineChunk(payload); err != nil {
		return chunk, err
	}
	if err := engine.Guard(func() error { return chunk.Unmarshal(payload) }); err != nil {
		return chunk, fmt.Errorf("%w: snapshot piece: %w", errFrame, err)
	}
	return chunk, c.validator.chunk(&chunk)
}

func (v validator) decodeBatch(payload []byte) (batch raftpb.MessageBatch, from uint64, err error) {
	if err := outlineBatch(payload); err != nil {
		return batch, 0, err
	}
	if err := engine.Guard(func() error { return batch.Unmarshal(payload) }); err != nil {
		return batch, 0, fmt.Errorf("%w: batch: %w", errFrame, err)
	}
	from, err = v.batch(&batch)
	return batch, from, err
}
