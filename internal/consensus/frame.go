package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
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
