package wire

import (
	"bytes"
	"fmt"

	"github.com/lni/dragonboat/v4/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// The engine's decoders trust their input: a field of the wrong wire type makes one loop forever
// and then allocate all memory; nested groups exhaust the stack. recover helps against neither. So
// the outline of a payload is checked first: known fields only, of the right wire type and size.

const (
	messagesMax = 8192    // messages in a batch; the engine queues 2,048
	entriesMax  = 1 << 20 // entries in a batch
)

// outlineBatch checks the outline of a raftpb.MessageBatch, and the number of messages and entries:
// decoded ones are many times larger than encoded ones.
func outlineBatch(b []byte) error {
	messages, entries := 0, 0
	snapshot, err := (&raftpb.Snapshot{}).Marshal()
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	message := func(number protowire.Number, value []byte) error {
		switch number {
		case 11: // an entry, whose decoder may panic but no worse
			entries++
		case 12:
			if !bytes.Equal(value, snapshot) {
				return fmt.Errorf("%w: message with a snapshot", errFrame)
			}
		}
		return nil
	}
	err = eachField(b, set(2, 4), set(1, 3), func(number protowire.Number, value []byte) error {
		if number != 1 {
			return nil
		}
		if messages++; messages > messagesMax {
			return fmt.Errorf("%w: too many messages", errFrame)
		}
		return eachField(value, set(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13), set(11, 12), message)
	})
	if err == nil && entries > entriesMax {
		err = fmt.Errorf("%w: too many entries", errFrame)
	}
	return err
}

// outlineChunk checks the outline of a raftpb.Chunk.
func outlineChunk(b []byte) error {
	file, err := (&raftpb.SnapshotFile{}).Marshal()
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	varints := set(1, 2, 3, 4, 5, 6, 8, 9, 13, 14, 15, 16, 17, 19, 20, 21)
	return eachField(b, varints, set(7, 10, 12, 18), func(number protowire.Number, value []byte) error {
		switch {
		case number == 10:
			return outlineMembership(value)
		case number == 18 && !bytes.Equal(value, file):
			return fmt.Errorf("%w: snapshot with another file", errFrame)
		}
		return nil
	})
}

// outlineMembership checks the outline of a raftpb.Membership, maps by replica.
func outlineMembership(b []byte) error {
	return eachField(b, set(1), set(2, 3, 4, 5), func(number protowire.Number, value []byte) error {
		if number == 3 {
			return eachField(value, set(1, 2), 0, nil)
		}
		return eachField(value, set(1), set(2), nil)
	})
}

// set is a set of field numbers below 64.
func set(numbers ...protowire.Number) (s uint64) {
	for _, number := range numbers {
		s |= 1 << number
	}
	return s
}

// eachField calls inner, unless it is nil, for each field in texts; the others must be in varints.
func eachField(b []byte, varints, texts uint64, inner func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		b = b[n:]
		bit := uint64(0)
		if number < 64 {
			bit = 1 << number
		}
		var value []byte
		switch {
		case kind == protowire.VarintType && varints&bit != 0:
			_, n = protowire.ConsumeVarint(b)
		case kind == protowire.BytesType && texts&bit != 0:
			value, n = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("%w: field %d of wire type %d", errFrame, number, kind)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.BytesType && inner != nil {
			if err := inner(number, value); err != nil {
				return err
			}
		}
	}
	return nil
}
