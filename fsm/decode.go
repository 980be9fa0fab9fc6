package fsm

import "fmt"

// Decode reads a command. It checks the form, not the bounds: Apply does that. The error wraps
// ErrUnsupported for a version or operation that this package does not know, else ErrMalformed. The
// command shares no memory with b.
func Decode(b []byte) (Command, error) {
	if isBatch(b) {
		return decodeBatch(b)
	}
	var s scratch
	c, err := s.decode(b)
	if err != nil {
		return nil, err
	}
	return c.command(), nil
}

// decodable is a command being read: a pointer to one of the command structs.
type decodable interface {
	decode(b []byte) error
	command() Command
	process() Process
}

// scratch has room for one command of each kind, so that Apply decodes without allocating them.
type scratch struct {
	birth        Birth
	serve        Serve
	level        Level
	hello        Hello
	goodbye      Goodbye
	remove       Remove
	revoke       Revoke
	acquire      Acquire
	withdraw     Withdraw
	release      Release
	setValue     SetValue
	keep         Keep
	closeSession CloseSession
	expire       Expire
	forceRelease ForceRelease
	finish       Finish
	turn         Turn
	sweep        Sweep
	endRest      EndRest
	raise        Raise
	silent       Silent
	continued    Continue
	forget       Forget
	ask          Ask
}

// decode reads b into the struct of its operation and returns a pointer to it, good until the next
// call.
func (s *scratch) decode(b []byte) (decodable, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("holdfast: command of %d bytes: %w", len(b), ErrMalformed)
	}
	if err := known(b); err != nil {
		return nil, err
	}
	c := s.cleared(op(b[1]))
	if c == nil { // a batch, which Apply takes apart
		return nil, fmt.Errorf("holdfast: command operation %d: %w", b[1], ErrMalformed)
	}
	if err := c.decode(b[2:]); err != nil {
		return nil, fmt.Errorf("holdfast: command operation %d: %w", b[1], err)
	}
	return c, nil
}

// cleared clears and returns the struct of an operation, nil if that is no single command's. The
// slices of the frequent commands keep their memory.
func (s *scratch) cleared(o op) decodable {
	switch o {
	case opBirth:
		s.birth = Birth{}
		return &s.birth
	case opServe:
		return &s.serve
	case opLevel:
		s.level = Level{}
		return &s.level
	case opHello:
		s.hello = Hello{}
		return &s.hello
	case opGoodbye:
		s.goodbye = Goodbye{}
		return &s.goodbye
	case opRemove:
		s.remove = Remove{}
		return &s.remove
	case opRevoke:
		s.revoke = Revoke{}
		return &s.revoke
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
	case opCloseSession:
		s.closeSession = CloseSession{}
		return &s.closeSession
	case opExpire:
		s.expire = Expire{}
		return &s.expire
	case opForceRelease:
		s.forceRelease = ForceRelease{}
		return &s.forceRelease
	case opFinish:
		s.finish = Finish{}
		return &s.finish
	case opForget:
		s.forget = Forget{}
		return &s.forget
	case opAsk:
		s.ask = Ask{}
		return &s.ask
	}
	return s.ofTime(o)
}

// ofTime is room for what replicas propose, and not callers.
func (s *scratch) ofTime(o op) decodable {
	switch o {
	case opTurn:
		s.turn = Turn{}
		return &s.turn
	case opSweep:
		s.sweep = Sweep{}
		return &s.sweep
	case opEndRest:
		s.endRest = EndRest{}
		return &s.endRest
	case opSilent:
		s.silent = Silent{}
		return &s.silent
	case opRaise:
		s.raise = Raise{}
		return &s.raise
	case opContinue:
		s.continued = Continue{}
		return &s.continued
	}
	return nil
}

func (c *Birth) command() Command        { return *c }
func (c *Serve) command() Command        { return *c }
func (c *Level) command() Command        { return *c }
func (c *Hello) command() Command        { return *c }
func (c *Goodbye) command() Command      { return *c }
func (c *Remove) command() Command       { return *c }
func (c *Revoke) command() Command       { return *c }
func (c *Acquire) command() Command      { return *c }
func (c *Withdraw) command() Command     { return *c }
func (c *Release) command() Command      { return *c }
func (c *SetValue) command() Command     { return *c }
func (c *Keep) command() Command         { return *c }
func (c *CloseSession) command() Command { return *c }
func (c *Expire) command() Command       { return *c }
func (c *ForceRelease) command() Command { return *c }
func (c *Finish) command() Command       { return *c }
func (c *Turn) command() Command         { return *c }
func (c *Sweep) command() Command        { return *c }
func (c *EndRest) command() Command      { return *c }
