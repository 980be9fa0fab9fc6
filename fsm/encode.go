package fsm

import "reflect"

// commandVersion is the first byte of every command.
const commandVersion = 1

// op is the second byte of every command. Numbers are never reused.
type op byte

const (
	opBirth op = iota + 1
	opServe
	opLevel
	opHello
	opGoodbye
	opAcquire
	opWithdraw
	opRelease
	opSetValue
	opKeep
	opCloseSession
	opExpire
	opForceRelease
	opFinish
	opTurn
	opSweep
	opEndRest
	opRemove
	opRevoke
	opRaise
	opSilent
	opBatch
	opContinue
	opForget
	opAsk
	opRaiseTTL
	opEvict
	opVia
	opResize
	opSetQuota
	opAct
	// level_this.go and level_next.go have what follows, and opEnd.
)

// usual is the room for a command without a value.
const usual = 128

// Encode is the command as the log holds it.
func Encode(c Command) []byte {
	b := make([]byte, 0, usual)
	switch c := c.(type) {
	case Acquire:
		return c.AppendTo(b)
	case Release:
		return c.AppendTo(b)
	case SetValue:
		return c.appendTo(b)
	case Batch:
		return c.appendTo(b)
	case *Batch:
		return c.appendTo(b)
	case Via:
		return append(AppendVia(b), Encode(c.Command)...)
	case *Via:
		return Encode(*c)
	}
	operation, _ := c.about()
	return appendFields(appendHeader(b, operation), c)
}

// appendFields appends the fields of a command, question or answer, or of a pointer to one.
func appendFields(b []byte, v any) []byte {
	message, pointer := v.(fielded)
	if !pointer {
		p := reflect.New(reflect.TypeOf(v))
		p.Elem().Set(reflect.ValueOf(v))
		message = p.Interface().(fielded)
	}
	f := writing(b)
	for f.more() {
		message.fields(&f)
	}
	return f.out
}

func appendHeader(b []byte, c op) []byte { return append(b, commandVersion, byte(c)) }

// The commands that there are many of keep their codecs on the stack; the others allocate.

// AppendTo appends the encoded command. It allocates nothing if there is room.
func (c Acquire) AppendTo(b []byte) []byte {
	f := writing(appendHeader(b, opAcquire))
	for f.more() {
		c.fields(&f)
	}
	return f.out
}

// AppendTo appends the encoded command. It allocates nothing if there is room.
func (c Release) AppendTo(b []byte) []byte {
	f := writing(appendHeader(b, opRelease))
	for f.more() {
		c.fields(&f)
	}
	return f.out
}

func (c SetValue) appendTo(b []byte) []byte {
	f := writing(appendHeader(b, opSetValue))
	for f.more() {
		c.fields(&f)
	}
	return f.out
}
