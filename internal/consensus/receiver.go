package consensus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// receive delivers what comes on a connection until it ends, or brings what must not be let in: then the
// connection is closed, because nothing after that can be trusted.
func (c *carrier) receive(conn net.Conn) {
	frames := frameReader{r: bufio.NewReaderSize(conn, 64<<10)}
	var acked time.Time
	for {
		kind, payload, err := frames.next()
		if err == nil {
			err = c.deliver(kind, payload)
		}
		if err != nil {
			c.hangUp(conn, err)
			return
		}
		if now := time.Now(); now.Sub(acked) >= ackEvery {
			acked = now
			if conn.SetWriteDeadline(now.Add(batchTimeout)) != nil {
				return
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return
			}
		}
	}
}

func (c *carrier) hangUp(conn net.Conn, err error) {
	if !errors.Is(err, errFrame) && !errors.Is(err, errVet) && !errors.Is(err, ErrInvariant) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // it ended, or this replica closes
	}
	c.refused.Add(1)
	c.log.Warn("raft connection closed", "component", "raft", "from", conn.RemoteAddr().String(), "error", err)
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
