package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A connection between replicas carries frames in one direction: one byte kind, three bytes 0, four bytes
// length and four bytes CRC-32C of the payload, both little-endian, then the payload. The other direction
// carries acknowledgements, a byte each (see receiver.go).
const (
	frameBatch byte = 'B' // raftpb.MessageBatch
	frameChunk byte = 'C' // raftpb.Chunk, a piece of a snapshot
)

const (
	frameHeader   = 12
	batchBytesMax = 80 << 20 // the engine's own bound of a message is 64 MiB
	chunkBytesMax = 4 << 20  // the engine's own bound of a piece is 2 MiB
	bufferKept    = 1 << 20  // a buffer that grew beyond is given back after use
	messagesMax   = 8192     // messages in a batch; the engine queues 2,048
	entriesMax    = 1 << 20  // entries in a batch
)

var errFrame = errors.New("holdfast: bad frame")

// putHeader fills the header of a frame, whose payload is behind it.
func putHeader(frame []byte, kind byte) {
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(kind))
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[8:], checksum(payload))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// frameReader reads frames. A length costs memory only as its bytes arrive.
type frameReader struct {
	r      io.Reader
	header [frameHeader]byte
	buffer []byte
}

// next answers the kind and payload of the next frame; the payload is good until the next call.
func (f *frameReader) next() (byte, []byte, error) {
	if cap(f.buffer) > bufferKept {
		f.buffer = nil
	}
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, nil, err
	}
	kind := binary.LittleEndian.Uint32(f.header[:])
	size := int(binary.LittleEndian.Uint32(f.header[4:]))
	sum := binary.LittleEndian.Uint32(f.header[8:])
	limit := 0
	switch kind {
	case uint32(frameBatch):
		limit = batchBytesMax
	case uint32(frameChunk):
		limit = chunkBytesMax
	default:
		return 0, nil, fmt.Errorf("%w: kind %#x", errFrame, kind)
	}
	if size == 0 || size > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes", errFrame, size)
	}
	f.buffer = f.buffer[:0]
	for len(f.buffer) < size {
		at := len(f.buffer)
		step := min(size-at, max(64<<10, at)) // at most doubles what has arrived
		f.buffer = slices.Grow(f.buffer, step)[:at+step]
		if _, err := io.ReadFull(f.r, f.buffer[at:]); err != nil {
			return 0, nil, fmt.Errorf("%w: cut off: %w", errFrame, err)
		}
	}
	if checksum(f.buffer) != sum {
		return 0, nil, fmt.Errorf("%w: checksum", errFrame)
	}
	return byte(kind), f.buffer, nil
}

// measure counts messages and entries of an encoded batch before it is decoded: decoded ones are many times
// larger than the smallest encoded ones.
func measure(batch []byte) error {
	messages, entries := 0, 0
	err := eachField(batch, 1, func(message []byte) error {
		messages++
		return eachField(message, 11, func([]byte) error {
			entries++
			return nil
		})
	})
	if err == nil && (messages > messagesMax || entries > entriesMax) {
		err = fmt.Errorf("%w: %d messages, %d entries", errFrame, messages, entries)
	}
	return err
}

// eachField calls f for every occurrence of a field of bytes.
func eachField(b []byte, field protowire.Number, f func([]byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		b = b[n:]
		if number == field && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
			}
			if err := f(value); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return nil
}
