package fsm

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// appendUint appends a number; zero is the default and is left out.
func appendUint(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// appendText appends a string; the empty one is the default and is left out.
func appendText(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

// appendBytes appends bytes, also when they are empty: for fields whose presence counts.
func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// appendPacked appends numbers as one packed field.
func appendPacked(b []byte, n protowire.Number, vs []uint64) []byte {
	if len(vs) == 0 {
		return b
	}
	size := 0
	for _, v := range vs {
		size += protowire.SizeVarint(v)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(size))
	for _, v := range vs {
		b = protowire.AppendVarint(b, v)
	}
	return b
}

// fields walks over the fields of one message. It never reads beyond its bytes and never allocates
// for more than they hold. A field of a known number but of another kind is malformed; unknown
// fields are the caller's to skip. The first fault ends the walk and stays in err.
type fields struct {
	rest   []byte
	err    error
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a varint
	bytes  []byte // of a length-delimited field; a part of the input
}

func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	if f.short() {
		return true
	}
	number, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 {
		return f.fail()
	}
	f.rest = f.rest[n:]
	f.number, f.kind, f.value, f.bytes = number, kind, 0, nil
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	default:
		n = protowire.ConsumeFieldValue(number, kind, f.rest)
	}
	if n < 0 {
		return f.fail()
	}
	f.rest = f.rest[n:]
	return true
}

// short is next for a number below 128 and for fewer than 128 bytes, as most fields have.
func (f *fields) short() bool {
	b := f.rest
	if len(b) < 2 || b[0] < 1<<3 || b[0] >= 0x80 || b[1] >= 0x80 {
		return false
	}
	switch number, kind := protowire.Number(b[0]>>3), protowire.Type(b[0]&7); kind {
	case protowire.VarintType:
		f.number, f.kind, f.value, f.bytes, f.rest = number, kind, uint64(b[1]), nil, b[2:]
		return true
	case protowire.BytesType:
		if end := 2 + int(b[1]); end <= len(b) {
			f.number, f.kind, f.value, f.bytes, f.rest = number, kind, 0, b[2:end], b[end:]
			return true
		}
	}
	return false
}

func (f *fields) fail() bool {
	if f.err == nil {
		f.err = ErrMalformed
	}
	return false
}

// check takes over the error of a nested message.
func (f *fields) check(err error) {
	if err != nil && f.err == nil {
		f.err = err
	}
}

func (f *fields) uint64() uint64 {
	if f.kind != protowire.VarintType {
		f.fail()
	}
	return f.value
}

func (f *fields) uint32() uint32 {
	v := f.uint64()
	if v > math.MaxUint32 {
		f.fail()
		return 0
	}
	return uint32(v)
}

func (f *fields) sint32() int32 {
	v := protowire.DecodeZigZag(f.uint64())
	if v < math.MinInt32 || v > math.MaxInt32 {
		f.fail()
		return 0
	}
	return int32(v)
}

func (f *fields) message() []byte {
	if f.kind != protowire.BytesType {
		f.fail()
	}
	return f.bytes
}

// appendUints reads one number or a packed field of them.
func (f *fields) appendUints(to []uint64) []uint64 {
	if f.kind == protowire.VarintType {
		return append(to, f.value)
	}
	for b := f.message(); len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			f.fail()
			return to
		}
		to, b = append(to, v), b[n:]
	}
	return to
}
