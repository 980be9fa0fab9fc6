package membership

import (
	"bytes"
	"errors"
	"fmt"
)

// Without keys every client of the port reaches memberlist, which trusts its input: a header of
// forty bytes makes it allocate a hundred megabytes, and nested packets exhaust the stack. So plain
// packets and streams are validated first. With keys memberlist itself refuses strangers, and only
// sizes are bounded here.

// The kinds of messages on memberlist's wire.
const (
	kindPing         = 0
	kindIndirectPing = 1
	kindAck          = 2
	kindSuspect      = 3
	kindAlive        = 4
	kindDead         = 5
	kindPushPull     = 6
	kindCompound     = 7
	kindUser         = 8
	kindNack         = 11
	kindChecksum     = 12
	kindError        = 13
	kindLabel        = 244
)

const (
	packetMax     = 2048    // memberlist fills packets up to 1400 bytes
	checksumBytes = 5       // the kind and a CRC-32
	headMax       = 512     // label, kind and header of a stream
	answerMax     = 4 << 10 // a ping, an answer to one, or an error
	statesMax     = 8 << 10 // members in a push/pull
	stateBytesMax = 1 << 10 // one of them on the wire, with a Meta of MetaMax
	stateCost     = 128     // memory that memberlist allocates for one when it reads the header
)

var (
	errRefused = errors.New("holdfast: gossip refused")
	errShort   = errors.New("holdfast: gossip cut short")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// validator refuses packets and streams that must not reach memberlist.
type validator struct {
	label  string
	sealed bool
}

// packet validates a datagram.
func (v validator) packet(b []byte) error {
	if len(b) > packetMax {
		return refuse("packet of %d bytes", len(b))
	}
	n, err := v.cutLabel(b)
	if err != nil {
		return err
	}
	if b = b[n:]; v.sealed {
		return nil
	}
	if len(b) >= checksumBytes && b[0] == kindChecksum {
		b = b[checksumBytes:]
	}
	if len(b) == 0 {
		return refuse("empty packet")
	}
	if b[0] == kindCompound {
		return validateCompound(b[1:])
	}
	return validateKind(b[0])
}

func validateKind(kind byte) error {
	switch kind {
	case kindPing, kindIndirectPing, kindAck, kindNack, kindSuspect, kindAlive, kindDead:
		return nil
	}
	return refuse("packet of kind %d", kind)
}

// validateCompound refuses nested compounds, and several parts that ask for an answer: one packet
// would cause hundreds.
func validateCompound(b []byte) error {
	if len(b) == 0 {
		return refuse("compound packet without a count")
	}
	count := int(b[0])
	sizes, parts := b[1:], b[1:]
	if len(sizes) < 2*count {
		return refuse("compound packet without sizes")
	}
	parts = parts[2*count:]
	probes := 0
	for i := range count {
		size := int(sizes[2*i])<<8 | int(sizes[2*i+1])
		if size == 0 || size > len(parts) {
			return refuse("compound packet cut short")
		}
		if err := validateKind(parts[0]); err != nil {
			return err
		}
		switch parts[0] {
		case kindPing, kindIndirectPing, kindAck, kindNack:
			probes++
		}
		parts = parts[size:]
	}
	if probes > 1 {
		return refuse("packet with %d probes", probes)
	}
	return nil
}

// cutLabel returns the length of the label at the beginning of b.
func (v validator) cutLabel(b []byte) (int, error) {
	want := append([]byte{kindLabel, byte(len(v.label))}, v.label...)
	have := min(len(b), len(want))
	switch {
	case !bytes.Equal(b[:have], want[:have]):
		return 0, refuse("the label is not this cluster's")
	case have < len(want):
		return 0, errShort
	}
	return have, nil
}

// head validates the beginning of an incoming stream (asked), or of the answer on an outgoing one.
// errShort asks for more bytes. limit bounds the bytes of the stream, cost is the memory that
// memberlist allocates at once.
func (v validator) head(b []byte, asked bool) (limit, cost int, err error) {
	at := 0
	if asked {
		if at, err = v.cutLabel(b); err != nil {
			return 0, 0, err
		}
	}
	if v.sealed {
		return streamBytesMax, 0, nil
	}
	if at == len(b) {
		return 0, 0, errShort
	}
	kind := b[at]
	at++
	switch {
	case asked && kind == kindPing, !asked && kind == kindAck, !asked && kind == kindError:
		return answerMax, 0, nil
	case asked && kind == kindUser:
		fields, n, err := readHeader(b[at:])
		if err != nil {
			return 0, 0, err
		}
		size := fields["UserMsgLen"]
		if size > MessageMax+4*NodeMax {
			return 0, 0, refuse("message of %d bytes", size)
		}
		return at + n + int(size), 0, nil
	case kind == kindPushPull:
		fields, n, err := readHeader(b[at:])
		if err != nil {
			return 0, 0, err
		}
		if fields["Nodes"] > statesMax || fields["UserStateLen"] > 0 {
			return 0, 0, refuse("state of %d members and %d bytes", fields["Nodes"], fields["UserStateLen"])
		}
		states := int(fields["Nodes"])
		return at + n + states*stateBytesMax, states * stateCost, nil
	}
	return 0, 0, refuse("stream of kind %d", kind)
}

// readHeader reads the map of numbers at the beginning of a message, in msgpack, and returns its
// size in bytes.
func readHeader(b []byte) (fields map[string]uint64, size int, err error) {
	if len(b) == 0 {
		return nil, 0, errShort
	}
	if b[0]&0xf0 != 0x80 {
		return nil, 0, refuse("header is not a small map")
	}
	fields = make(map[string]uint64)
	at := 1
	for range b[0] & 0x0f {
		if at == len(b) {
			return nil, 0, errShort
		}
		if b[at]&0xe0 != 0xa0 {
			return nil, 0, refuse("header with a strange key")
		}
		end := at + 1 + int(b[at]&0x1f)
		if end >= len(b) {
			return nil, 0, errShort
		}
		name := string(b[at+1 : end])
		value, n, err := readNumber(b[end:])
		if err != nil {
			return nil, 0, err
		}
		if _, ok := fields[name]; ok {
			return nil, 0, refuse("header with a field twice")
		}
		fields[name] = value
		at = end + n
	}
	return fields, at, nil
}

// readNumber reads a number that is not negative, or a boolean.
func readNumber(b []byte) (value uint64, size int, err error) {
	switch kind := b[0]; {
	case kind < 0x80:
		return uint64(kind), 1, nil
	case kind == 0xc2, kind == 0xc3:
		return uint64(kind & 1), 1, nil
	case kind >= 0xcc && kind <= 0xd3: // of 1, 2, 4 or 8 bytes, without and with a sign
		size = 1 + 1<<(kind&3)
	default:
		return 0, 0, refuse("header with a strange value")
	}
	if len(b) < size {
		return 0, 0, errShort
	}
	for _, c := range b[1:size] {
		value = value<<8 | uint64(c)
	}
	if b[0] >= 0xd0 && b[1] >= 0x80 {
		return 0, 0, refuse("header with a negative value")
	}
	return value, size, nil
}
