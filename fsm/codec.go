package fsm

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// codec writes the fields of a message, or reads them. A message names each of its fields once, in
// a method for both directions: a call of the codec appends the value of that field, or sets it
// when the field at hand has that number. A field whose value is the default is left out, unless
// its method says otherwise.
//
// The calls come in the order in which the fields are written. So one pass over them reads what
// this version wrote. A message in another order takes more passes, and a field that no call takes
// is skipped: it is of a later version.
type codec struct {
	fields        // read
	out    []byte // written
	begin  int    // of a message within another: where its fields begin in out
	writes bool
	taken  bool // a field was taken in this pass, or the pass of the writer is over
}

func reading(b []byte) codec { return codec{fields: fields{rest: b}} }

func writing(b []byte) codec { return codec{out: b, writes: true} }

// fielded is a message: its fields are written from it, or read into it.
type fielded interface{ fields(f *codec) }

// read reads a message that is no more than its fields.
func read(b []byte, message fielded) error {
	f := reading(b)
	for f.more() {
		message.fields(&f)
	}
	return f.err
}

// more begins a pass over the calls: the only one of a writer. False when all fields are read, or
// one is malformed.
func (f *codec) more() bool {
	if f.writes {
		f.taken = !f.taken
		return f.taken
	}
	if !f.taken { // nobody knows the field at hand, or it is before the first
		f.step()
	}
	f.taken = false
	return f.number != 0
}

// step goes on to the next field. No field has the number 0.
func (f *codec) step() {
	if f.taken = true; f.err != nil || !f.next() {
		f.number = 0
	}
}

// at reports whether a call has something to do. It is a part of each call that the compiler can put
// in its place: of the twenty fields of a command most are not there.
func (f *codec) at(n protowire.Number) bool { return f.writes || f.number == n }

func (f *codec) uint(n protowire.Number, v *uint64) {
	if f.at(n) {
		f.doUint(n, v)
	}
}

func (f *codec) doUint(n protowire.Number, v *uint64) {
	if f.writes {
		f.out = appendUint(f.out, n, *v)
	} else {
		*v = f.uint64()
		f.step()
	}
}

// narrow is uint for what has fewer bits; a number that has more is malformed.
func narrow[T ~uint8 | ~uint32](f *codec, n protowire.Number, v *T) {
	if f.writes {
		f.out = appendUint(f.out, n, uint64(*v))
	} else if f.number == n {
		wide := f.uint64()
		if *v = T(wide); uint64(*v) != wide {
			f.fail()
		}
		f.step()
	}
}

// signed writes a number that may be negative in zigzag.
func (f *codec) signed(n protowire.Number, v *int32) {
	if f.at(n) {
		f.doSigned(n, v)
	}
}

func (f *codec) doSigned(n protowire.Number, v *int32) {
	if f.writes {
		f.out = appendUint(f.out, n, protowire.EncodeZigZag(int64(*v)))
	} else {
		*v = f.sint32()
		f.step()
	}
}

func (f *codec) bool(n protowire.Number, v *bool) {
	if f.at(n) {
		f.doBool(n, v)
	}
}

func (f *codec) doBool(n protowire.Number, v *bool) {
	if f.writes {
		f.out = appendUint(f.out, n, protowire.EncodeBool(*v))
	} else {
		*v = protowire.DecodeBool(f.uint64())
		f.step()
	}
}

// millis is a duration in whole milliseconds; one that is not positive is left out.
func (f *codec) millis(n protowire.Number, v *time.Duration) {
	if f.at(n) {
		f.doMillis(n, v)
	}
}

func (f *codec) doMillis(n protowire.Number, v *time.Duration) {
	if f.writes {
		f.out = appendUint(f.out, n, uint64(max(*v, 0)/time.Millisecond))
	} else {
		millis := f.uint64()
		if *v = time.Duration(millis) * time.Millisecond; millis > math.MaxInt64/uint64(time.Millisecond) {
			f.fail()
		}
		f.step()
	}
}

func (f *codec) text(n protowire.Number, v *string) {
	if f.at(n) {
		f.doText(n, v)
	}
}

func (f *codec) doText(n protowire.Number, v *string) {
	if f.writes {
		f.out = appendText(f.out, n, *v)
	} else {
		*v = string(f.message())
		f.step()
	}
}

// texts is a list: one field for each element, the empty ones included.
func (f *codec) texts(n protowire.Number, v *[]string) {
	if f.writes {
		for _, s := range *v {
			f.out = protowire.AppendString(protowire.AppendTag(f.out, n, protowire.BytesType), s)
		}
	}
	for f.number == n {
		*v = append(*v, string(f.message()))
		f.step()
	}
}

// blob is bytes whose presence counts: nil is left out, and the empty ones are not.
func (f *codec) blob(n protowire.Number, v *[]byte) {
	if f.at(n) {
		f.doBlob(n, v)
	}
}

func (f *codec) doBlob(n protowire.Number, v *[]byte) {
	if f.writes && *v != nil {
		f.out = appendBytes(f.out, n, *v)
	} else if !f.writes {
		*v = append([]byte{}, f.message()...)
		f.step()
	}
}

// value is a value whose presence counts, as that of a blob does.
func (f *codec) value(n protowire.Number, v **value) {
	if f.writes && *v != nil {
		f.out = protowire.AppendString(protowire.AppendTag(f.out, n, protowire.BytesType), (*v).text)
	} else if f.number == n {
		*v = &value{text: string(f.message())}
		f.step()
	}
}

// id is always written.
func (f *codec) id(n protowire.Number, v *[16]byte) {
	if f.writes {
		f.out = appendBytes(f.out, n, v[:])
	} else if f.number == n {
		if len(f.message()) == len(v) {
			*v = [16]byte(f.bytes)
		} else {
			f.fail()
		}
		f.step()
	}
}

// uints is a list of numbers: one packed field, or when it is read also a field for each.
func (f *codec) uints(n protowire.Number, v *[]uint64) {
	if f.writes {
		f.out = appendPacked(f.out, n, *v)
	}
	for f.number == n {
		*v = f.appendUints(*v)
		f.step()
	}
}

// someNode is a node that is written unless it is zero.
func (f *codec) someNode(n protowire.Number, v *Node) {
	if !f.writes || *v != (Node{}) {
		f.node(n, v)
	}
}

// node is always written.
func (f *codec) node(n protowire.Number, v *Node) { f.id(n, (*[16]byte)(v)) }

// session is always written.
func (f *codec) session(n protowire.Number, v *SessionID) {
	if !f.at(n) {
		return
	}
	if !f.writes {
		*v = SessionID{}
	}
	outer := f.open(n)
	for f.more() {
		f.node(1, &v.Node)
		f.uint(2, &v.Incarnation)
		f.uint(3, &v.Number)
	}
	f.close(outer)
}

// grants is a list.
func (f *codec) grants(n protowire.Number, v *[]Grant) {
	for i := range *v {
		if f.writes {
			f.grant(n, &(*v)[i])
		}
	}
	for f.number == n {
		var g Grant
		f.grant(n, &g)
		*v = append(*v, g)
	}
}

func (f *codec) grant(n protowire.Number, v *Grant) {
	outer := f.open(n)
	for f.more() {
		f.text(1, &v.Name)
		f.uint(2, &v.Token)
	}
	f.close(outer)
}

// outer is a message while one within it is read or written.
type outer struct {
	fields
	begin int
}

// open begins a message within this one, which close ends.
func (f *codec) open(n protowire.Number) outer {
	within := fields{}
	if f.writes {
		f.out = append(protowire.AppendTag(f.out, n, protowire.BytesType), 0) // room for a short length
	} else {
		within.rest = f.message()
	}
	o := outer{f.fields, f.begin}
	f.fields, f.begin, f.taken = within, len(f.out), false
	return o
}

func (f *codec) close(o outer) {
	err, begin := f.err, f.begin
	f.fields, f.begin, f.taken = o.fields, o.begin, true
	if !f.writes {
		f.check(err)
		f.step()
		return
	}
	size := uint64(len(f.out) - begin)
	if size >= 0x80 {
		f.out = slices.Insert(f.out, begin, make([]byte, protowire.SizeVarint(size)-1)...)
	}
	protowire.AppendVarint(f.out[:begin-1], size)
}
