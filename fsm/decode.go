package fsm

import (
	"fmt"
	"reflect"
)

// Decode reads a command. It checks the form, not the bounds: Apply does that. The error wraps
// ErrUnsupported for a version or operation that this package does not know, else ErrMalformed. The
// command shares no memory with b.
func Decode(b []byte) (Command, error) {
	if isBatch(b) {
		return decodeBatch(b)
	}
	b, via := cutVia(b)
	c, err := new(scratch).decode(b)
	if err != nil {
		return nil, err
	}
	cmd := reflect.ValueOf(c).Elem().Interface().(Command)
	if via {
		return Via{cmd}, nil
	}
	return cmd, nil
}

// decodable is a command that is read: a pointer to one of the command structs.
type decodable interface {
	Command
	fielded
	apply(m *Machine) Outcome
}

// scratch has room for one command of each kind that there are many of, so that Apply decodes
// without allocating them. Their slices keep their memory.
type scratch struct {
	codec    codec
	acquire  Acquire
	withdraw Withdraw
	release  Release
	setValue SetValue
	keep     Keep
}

// decode reads b and returns a pointer to the struct of its operation, good until the next call.
func (s *scratch) decode(b []byte) (decodable, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("holdfast: command of %d bytes: %w", len(b), ErrMalformed)
	}
	if err := known(b); err != nil {
		return nil, err
	}
	c := s.empty(op(b[1]))
	if c == nil { // a Batch or a Via, which Apply takes apart
		return nil, fmt.Errorf("holdfast: command operation %d: %w", b[1], ErrMalformed)
	}
	s.codec = reading(b[2:])
	for s.codec.more() {
		c.fields(&s.codec)
	}
	err := s.codec.err
	s.codec = codec{} // it would keep the entry
	if err != nil {
		return nil, fmt.Errorf("holdfast: command operation %d: %w", b[1], err)
	}
	return c, nil
}

// empty is the empty struct of an operation, nil if that is no single command's.
func (s *scratch) empty(o op) decodable {
	switch o {
	case opAcquire:
		s.acquire = Acquire{}
		return &s.acquire
	case opWithdraw:
		s.withdraw = Withdraw{Requests: s.withdraw.Requests[:0]}
		return &s.withdraw
	case opRelease:
		clear(s.release.Grants)
		s.release = Release{Grants: s.release.Grants[:0]}
		return &s.release
	case opSetValue:
		s.setValue = SetValue{}
		return &s.setValue
	case opKeep:
		s.keep = Keep{Sessions: s.keep.Sessions[:0]}
		return &s.keep
	}
	others := [opEnd]decodable{
		opBirth: (*Birth)(nil), opServe: (*Serve)(nil), opLevel: (*Level)(nil),
		opHello: (*Hello)(nil), opGoodbye: (*Goodbye)(nil), opRemove: (*Remove)(nil),
		opRevoke: (*Revoke)(nil), opCloseSession: (*CloseSession)(nil), opExpire: (*Expire)(nil),
		opForceRelease: (*ForceRelease)(nil), opFinish: (*Finish)(nil), opTurn: (*Turn)(nil),
		opSweep: (*Sweep)(nil), opEndRest: (*EndRest)(nil), opRaise: (*Raise)(nil),
		opSilent: (*Silent)(nil), opContinue: (*Continue)(nil), opForget: (*Forget)(nil),
		opAsk: (*Ask)(nil), opRaiseTTL: (*RaiseTTL)(nil), opEvict: (*Evict)(nil),
		opResize: (*Resize)(nil), opSetQuota: (*SetQuota)(nil), opAct: (*Act)(nil),
	}
	if others[o] == nil {
		return added(o)
	}
	return reflect.New(reflect.TypeOf(others[o]).Elem()).Interface().(decodable)
}
