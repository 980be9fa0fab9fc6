package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync/atomic"
)

// A connection between replicas has frames in one direction: one byte kind, three bytes 0, four
// bytes length and four bytes CRC-32C of the payload, both little-endian, then the payload. The
// first frame is a greeting. The other direction has answers of one byte each.
const (
	frameGreeting   byte = 'G' // greeting
	frameClock      byte = 'T' // see clocks.go
	frameBatch      byte = 'B' // raftpb.MessageBatch
	frameChunk      byte = 'C' // raftpb.Chunk of a snapshot
	frameWithdrawal byte = 'W' // see withdrawal.go
	frameWord       byte = '1' // see word.go
)

// later reports whether a frame is one that a later version may send unasked, with a digit for its
// kind: a version that does not know it skips it, and does not acknowledge it. Any other unknown kind
// ends the connection. A digit differs from each kind above in two bits at least.
func later(kind uint32) bool { return kind >= '0' && kind <= '9' }

const (
	answerReceived   byte = 1 // an acknowledgement
	answerSuperseded byte = 2 // ErrSuperseded
	answerForgetful  byte = 3 // ErrForgetful
	answerAhead      byte = 4 // ErrAhead
)

const (
	frameHeader   = 12
	batchBytesMax = 80 << 20 // the engine's own bound of a message is 64 MiB
	chunkBytesMax = 16 << 20 // the engine's own bound of a chunk is 2 MiB; each names all replicas ever removed, in 15 bytes
	greetingMax   = 256      // later versions may say more
	laterMax      = 256      // of a frame of a later version
	bufferKept    = 1 << 20  // a larger buffer is freed after use
	bufferFree    = 64 << 10 // a connection's buffer up to this is not counted
)

var errFrame = errors.New("holdfast: bad frame")

// putHeader fills the header of a frame that has its payload.
func putHeader(frame []byte, kind byte) {
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(kind))
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[8:], checksum(payload))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// memoryBudget bounds the memory of all connections' frames together.
type memoryBudget struct {
	max  int64
	used atomic.Int64
}

// framesBytesMax has room for one frame of the largest kind and many usual ones.
const framesBytesMax = batchBytesMax + 16<<20

// frameReader reads frames. It allocates a frame only as its bytes arrive, within the budget.
type frameReader struct {
	r      io.Reader
	begun  func(size int) error // if not nil, called after a header with the size of the payload
	first  bool                 // the next frame must be a greeting
	memory *memoryBudget        // nil: unbounded
	taken  int64                // of it
	header [frameHeader]byte
	buffer []byte
}

// next returns the kind and payload of the next frame; the payload is valid until the next call.
func (f *frameReader) next() (byte, []byte, error) {
	if cap(f.buffer) > bufferKept {
		f.close()
	}
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, nil, err
	}
	kind := binary.LittleEndian.Uint32(f.header[:])
	size := int(binary.LittleEndian.Uint32(f.header[4:]))
	sum := binary.LittleEndian.Uint32(f.header[8:])
	limit := 0
	switch {
	case f.first && kind == uint32(frameGreeting):
		limit = greetingMax
	case f.first:
		return 0, nil, fmt.Errorf("%w: kind %#x where the greeting is due", errFrame, kind)
	case kind == uint32(frameClock):
		limit = clockBytes
	case kind == uint32(frameBatch):
		limit = batchBytesMax
	case kind == uint32(frameChunk):
		limit = chunkBytesMax
	case kind == uint32(frameWithdrawal):
		limit = withdrawalBytes
	case later(kind): // and frameWord, of which a later version may say more
		limit = laterMax
	default:
		return 0, nil, fmt.Errorf("%w: kind %#x", errFrame, kind)
	}
	if size == 0 || size > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes", errFrame, size)
	}
	if f.begun != nil {
		if err := f.begun(size); err != nil {
			return 0, nil, err
		}
	}
	f.buffer = f.buffer[:0]
	for len(f.buffer) < size {
		at := len(f.buffer)
		step := min(size-at, max(64<<10, at)) // at most doubles the buffer
		if err := f.take(at + step); err != nil {
			return 0, nil, err
		}
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

// take reserves the budget for a buffer of so many bytes.
func (f *frameReader) take(size int) error {
	more := int64(size-bufferFree) - f.taken
	if f.memory == nil || more <= 0 {
		return nil
	}
	if f.memory.used.Add(more) > f.memory.max {
		f.memory.used.Add(-more)
		return fmt.Errorf("%w: %d bytes, beside other large frames", errFrame, size)
	}
	f.taken += more
	return nil
}

// close frees the buffer and its share of the budget.
func (f *frameReader) close() {
	if f.memory != nil {
		f.memory.used.Add(-f.taken)
	}
	f.buffer, f.taken = nil, 0
}
