package consensus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// receive delivers what comes on a connection until it ends, or brings what must not be let in: then the
// connection is closed, because nothing after that can be trusted.
func (c *carrier) receive(conn net.Conn) {
	pace := pacer{conn: conn}
	frames := frameReader{r: conn, begun: pace.begun, ration: &c.ration}
	defer frames.close()
	err := pace.begun(0) // a first frame must come; only then is the connection worth a large buffer
	var acked time.Time
	for err == nil {
		if err = c.receiveOne(&frames); err != nil {
			break
		}
		if pace.buffered == nil {
			pace.buffered = bufio.NewReaderSize(conn, 64<<10)
			frames.r = pace.buffered
		}
		if err = pace.ended(); err != nil {
			break
		}
		if now := time.Now(); now.Sub(acked) >= ackEvery {
			acked = now
			err = acknowledge(conn, now)
		}
	}
	c.hangUp(conn, err)
}

func (c *carrier) receiveOne(frames *frameReader) error {
	kind, payload, err := frames.next()
	if err != nil {
		return err
	}
	return c.deliver(kind, payload)
}

func acknowledge(conn net.Conn, now time.Time) error {
	if err := conn.SetWriteDeadline(now.Add(batchTimeout)); err != nil {
		return err
	}
	_, err := conn.Write([]byte{1})
	return err
}

// pacer ends connections that begin a frame and do not bring it: senders give up as soon. Between frames a
// connection may be quiet.
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

func (c *carrier) hangUp(conn net.Conn, err error) {
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if !errors.Is(err, errFrame) && !errors.Is(err, errVet) && !errors.Is(err, ErrInvariant) && !late || errors.Is(err, io.ErrUnexpectedEOF) {
		return // it ended, or this replica closes
	}
	c.refused.Add(1)
	if unreported, ok := c.warnings.take(time.Now()); ok {
		c.log.Warn("raft connection closed", "component", "raft", "from", conn.RemoteAddr().String(), "error", err, "unreported", unreported)
	}
}

// warnings lets one line through now and then, so that a stranger cannot fill the log.
type warnings struct {
	mu         sync.Mutex
	next       time.Time
	unreported int
}

const warningsPeriod = 10 * time.Second

// take answers whether to warn now, and how many times it said no since the last yes.
func (w *warnings) take(now time.Time) (unreported int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Before(w.next) {
		w.unreported++
		return 0, false
	}
	unreported, w.unreported, w.next = w.unreported, 0, now.Add(warningsPeriod)
	return unreported, true
}

// errRefusedChunk says that the engine does not want the rest of a snapshot.
var errRefusedChunk = errors.New("holdfast: snapshot refused")

func (c *carrier) deliver(kind byte, payload []byte) error {
	if c.silent() {
		return errCarrierClosed
	}
	if kind == frameChunk {
		chunk, err := c.decodeChunk(payload)
		if err != nil {
			return err
		}
		return guard(func() error {
			if !c.chunks(chunk) {
				return errRefusedChunk
			}
			return nil
		})
	}
	batch, from, err := c.vet.decodeBatch(payload)
	if err != nil {
		return err
	}
	c.nodes.hear(from, batch.SourceAddress)
	batch.SourceAddress = "" // or the engine would make the sender a member in the registry
	return guard(func() error {
		c.messages(batch)
		return nil
	})
}

func (c *carrier) decodeChunk(payload []byte) (chunk raftpb.Chunk, err error) {
	if err := shapeChunk(payload); err != nil {
		return chunk, err
	}
	if err := guard(func() error { return chunk.Unmarshal(payload) }); err != nil {
		return chunk, fmt.Errorf("%w: snapshot piece: %w", errFrame, err)
	}
	return chunk, c.vet.chunk(&chunk)
}

func (v vetter) decodeBatch(payload []byte) (batch raftpb.MessageBatch, from uint64, err error) {
	if err := shapeBatch(payload); err != nil {
		return batch, 0, err
	}
	if err := guard(func() error { return batch.Unmarshal(payload) }); err != nil {
		return batch, 0, fmt.Errorf("%w: batch: %w", errFrame, err)
	}
	from, err = v.batch(&batch)
	return batch, from, err
}
