package member

import "google.golang.org/protobuf/encoding/protowire"

// Fields calls text and number for the fields of an encoded message; false if it is malformed.
func Fields(b []byte, text func(protowire.Number, []byte), number func(protowire.Number, uint64)) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch kind {
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				text(field, v)
			}
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				number(field, v)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
