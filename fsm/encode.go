package fsm

import (
	"google.golang.org/protobuf/encoding/protowire"
)

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
	opEnd
)

func (Birth) op() op        { return opBirth }
func (Serve) op() op        { return opServe }
func (Level) op() op        { return opLevel }
func (Hello) op() op        { return opHello }
func (Goodbye) op() op      { return opGoodbye }
func (Acquire) op() op      { return opAcquire }
func (Withdraw) op() op     { return opWithdraw }
func (Release) op() op      { return opRelease }
func (SetValue) op() op     { return opSetValue }
func (Keep) op() op         { return opKeep }
func (CloseSession) op() op { return opCloseSession }
func (Expire) op() op       { return opExpire }
func (ForceRelease) op() op { return opForceRelease }
func (Finish) op() op       { return opFinish }
func (Turn) op() op         { return opTurn }
func (Sweep) op() op        { return opSweep }
func (EndRest) op() op      { return opEndRest }
func (Remove) op() op       { return opRemove }
func (Revoke) op() op       { return opRevoke }

// usual is the room for a command without a value.
const usual = 128

// Encode is the command as the log holds it.
func Encode(c Command) []byte { return c.AppendTo(make([]byte, 0, usual)) }

func appendHeader(b []byte, c op) []byte { return append(b, commandVersion, byte(c)) }

// AppendTo implements Command.
func (c Birth) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opBirth), 1, c.Cluster[:])
	b = appendUint(b, 2, c.Counter)
	b = appendUint(b, 3, uint64(c.Bootstrap))
	return appendUint(b, 4, uint64(c.Voters))
}

// AppendTo implements Command.
func (c Serve) AppendTo(b []byte) []byte { return appendHeader(b, opServe) }

// AppendTo implements Command.
func (c Level) AppendTo(b []byte) []byte {
	return appendUint(appendHeader(b, opLevel), 1, c.Level)
}

// AppendTo implements Command.
func (c Hello) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opHello), 1, c.Node[:])
	b = appendUint(b, 2, c.Incarnation)
	b = appendText(b, 3, c.Name)
	return c.Place.appendTo(b, 4)
}

// appendTo appends a place as three fields, from number on.
func (p Place) appendTo(b []byte, number protowire.Number) []byte {
	b = appendText(b, number, p.Boot)
	b = appendUint(b, number+1, p.Device)
	return appendUint(b, number+2, p.File)
}

// AppendTo implements Command.
func (c Goodbye) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opGoodbye), 1, c.Node[:])
	b = appendUint(b, 2, c.Incarnation)
	return appendUint(b, 3, uint64(c.Departure))
}

// AppendTo implements Command.
func (c Remove) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opRemove), 1, c.Node[:])
	b = appendUint(b, 2, c.Incarnation)
	return appendUint(b, 3, c.Since)
}

// AppendTo implements Command.
func (c Revoke) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opRevoke), 1, c.Node[:])
	b = appendUint(b, 2, c.Upto)
	return appendText(b, 3, c.Reason)
}

// AppendTo implements Command.
func (c Acquire) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opAcquire), 1, c.Session)
	b = appendMillis(b, 2, c.TTL)
	b = appendUint(b, 3, c.Request)
	b = appendUint(b, 4, c.Acked)
	b = appendText(b, 5, c.Name)
	b = appendBool(b, 6, c.Wait)
	b = appendUint(b, 7, uint64(c.Mode))
	b = appendUint(b, 8, uint64(c.Limit))
	b = appendUint(b, 9, uint64(c.Weight))
	b = appendUint(b, 10, protowire.EncodeZigZag(int64(c.Priority)))
	b = appendText(b, 11, c.Label)
	if c.HasValue && c.Value != nil {
		b = appendBytes(b, 12, c.Value)
	}
	for _, name := range c.Others {
		b = protowire.AppendString(protowire.AppendTag(b, 13, protowire.BytesType), name)
	}
	b = appendMillis(b, 14, c.Delay)
	b = appendPacked(b, 15, c.While)
	b = appendBool(b, 16, c.Refuse)
	b = appendBool(b, 17, c.HasValue && c.Value == nil)
	return appendBool(b, 18, c.Election)
}

// AppendTo implements Command.
func (c Withdraw) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opWithdraw), 1, c.Session)
	b = appendUint(b, 2, c.Acked)
	return appendPacked(b, 3, c.Requests)
}

// AppendTo implements Command.
func (c Release) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opRelease), 1, c.Session)
	b = appendUint(b, 2, c.Acked)
	for _, g := range c.Grants {
		b = appendMessage(b, 3, func(b []byte) []byte {
			return appendUint(appendText(b, 1, g.Name), 2, g.Token)
		})
	}
	b = appendMillis(b, 4, c.Rest)
	return appendBool(b, 5, c.Close)
}

// AppendTo implements Command.
func (c SetValue) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opSetValue), 1, c.Session)
	b = appendUint(b, 2, c.Request)
	b = appendUint(b, 3, c.Acked)
	b = appendText(b, 4, c.Name)
	b = appendUint(b, 5, c.Token)
	if c.Value != nil {
		b = appendBytes(b, 6, c.Value)
	}
	return b
}

// AppendTo implements Command.
func (c Keep) AppendTo(b []byte) []byte {
	b = appendBytes(appendHeader(b, opKeep), 1, c.Node[:])
	b = appendUint(b, 2, c.Incarnation)
	b = appendUint(b, 3, c.Seq)
	b = appendUint(b, 4, c.Lowest)
	b = appendPacked(b, 5, c.Sessions)
	return appendMillis(b, 6, c.TTL)
}

// AppendTo implements Command.
func (c CloseSession) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opCloseSession), 1, c.Session)
	return appendBool(b, 2, c.Lost)
}

// AppendTo implements Command.
func (c Expire) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opExpire), 1, c.Session)
	return appendUint(b, 2, c.Renewed)
}

// AppendTo implements Command.
func (c ForceRelease) AppendTo(b []byte) []byte {
	b = appendText(appendHeader(b, opForceRelease), 1, c.Name)
	b = appendUint(b, 2, c.Token)
	return appendText(b, 3, c.Reason)
}

// AppendTo implements Command.
func (c Finish) AppendTo(b []byte) []byte {
	b = appendSession(appendHeader(b, opFinish), 1, c.Session)
	b = appendUint(b, 2, c.Acked)
	b = appendText(b, 3, c.Name)
	b = appendUint(b, 4, c.Token)
	return appendMillis(b, 5, c.Keep)
}

// AppendTo implements Command.
func (c Turn) AppendTo(b []byte) []byte {
	b = appendMillis(appendHeader(b, opTurn), 1, c.Keep)
	return appendUint(b, 2, c.Last)
}

// AppendTo implements Command.
func (c Sweep) AppendTo(b []byte) []byte {
	b = appendMillis(appendHeader(b, opSweep), 1, c.Keep)
	return appendUint(b, 2, c.Upto)
}

// AppendTo implements Command.
func (c EndRest) AppendTo(b []byte) []byte {
	b = appendText(appendHeader(b, opEndRest), 1, c.Name)
	return appendUint(b, 2, c.Token)
}
