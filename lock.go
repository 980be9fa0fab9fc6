package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Acquire waits, first in, first out over the whole fleet, until the lock is granted or ctx ends.
// name has 1 to 512 bytes of UTF-8 without control characters.
//
// ctx bounds the waiting. Cancelling it after Acquire has returned does not end the lease; the
// lease keeps ctx's values. If ctx ends first, the error is that of ctx, and also
//
//   - a *HeldError if somebody has the lock,
//   - ErrNoQuorum if the group could not be reached before the deadline,
//   - ErrUnknownOutcome if the command may have been applied. Then a grant may be left that nobody
//     uses; it ends within the TTL, and a second call may have to wait for that.
func (c *Cluster) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	o, err := c.prepare(ctx, name, opts)
	if err == nil {
		err = o.alwaysWaits("Acquire")
	}
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, name, true, o)
}

// TryAcquire is Acquire without waiting: if somebody has the lock, or others wait for it, it
// returns a *HeldError at once. WithPriority and WithDeadlockCheck, which are about waiting, are
// ErrInvalid.
func (c *Cluster) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	o, err := c.prepare(ctx, name, opts)
	if err == nil {
		err = errors.Join(o.alwaysWaits("TryAcquire"), o.neverWaits())
	}
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, name, false, o)
}

// Do acquires the lock, runs fn, and releases the lock when fn has returned or panicked. fn's
// context ends when the lease is lost or ctx ends. Do returns the error of Acquire, or that of fn,
// joined with ErrLost if the lease was lost. WithNoWait returns a *HeldError instead of waiting.
func (c *Cluster) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	if fn == nil {
		return invalid("fn", "is nil")
	}
	o, err := c.prepare(ctx, name, opts)
	if err != nil {
		return err
	}
	l, err := c.ask(ctx, name, !o.noWait, o)
	if err != nil {
		return err
	}
	_, err = l.use(ctx, SpanDo, fn)
	return err
}

// arguments checks what is the same for every call about a lock or an election.
func (c *Cluster) arguments(ctx context.Context, name string, opts []Option) (options, error) {
	if err := checkCall(ctx, name); err != nil {
		return options{}, err
	}
	return gather(c.cfg.TTL, opts)
}

// prepare checks the arguments of a call that asks for a lock.
func (c *Cluster) prepare(ctx context.Context, name string, opts []Option) (options, error) {
	o, err := c.arguments(ctx, name, opts)
	if err != nil {
		return options{}, err
	}
	if o.spectator {
		return options{}, invalid("WithSpectator", "is for Lead alone")
	}
	return o, c.stopped()
}

// ask asks for a lock after the arguments were checked, and tells of it; name may be that of a Once
// key.
func (c *Cluster) ask(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	began := c.clock.Now()
	within, span := c.hooks.begin(ctx, Span{Kind: SpanAcquire, Name: public(name)})
	o.asked = ctx
	l, err := c.request(within, name, wait, o)
	c.ended(name, l, err, time.Duration(c.clock.Now()-began))
	if err != nil {
		span.over(0, err)
		return nil, err
	}
	span.over(l.Token(), nil)
	return l, nil
}

// request is ask without telling.
func (c *Cluster) request(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	if err := c.joined(ctx); err != nil {
		return nil, err
	}
	for {
		if done := c.finished(name); done != nil {
			return nil, done
		}
		if err := c.enter(ctx, c.proposer.Entries); err != nil {
			return nil, err
		}
		l, err := c.attempt(ctx, name, wait, o)
		if !errors.Is(err, errAgain) && !errors.Is(err, ErrYielded) { // the lock is to be had in the other group
			return l, err
		}
		if err := c.stopped(); err != nil {
			return nil, err
		}
	}
}

// errAgain: the session or the request is over without a result, through no fault of the caller's.
var errAgain = errors.New("holdfast: again with a new request")

// waiter is where a call that waits in the queue hears of the first thing that comes.
type waiter chan wakeup

// wakeup ends the waiting of a queued call.
type wakeup struct {
	token uint64
	err   error // set: the session is over, or the request was withdrawn from under the call
}

// Granted tells the call its token.
func (w waiter) Granted(token uint64) { w.wake(wakeup{token: token}) }

// Over tells the call that it has nothing to wait for.
func (w waiter) Over(err error) { w.wake(wakeup{err: err}) }

func (w waiter) wake(told wakeup) {
	select {
	case w <- told:
	default:
	}
}

// attempt, for a call that was let in, asks for the lock under one request number of one session.
func (c *Cluster) attempt(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	wake := make(waiter, 1)
	call, err := c.keeper.table.Ask(o.ttl, o.manual, wake, c.clock.Now())
	if err != nil {
		c.proposer.Entries.Leave(time.Now(), false)
		return nil, c.apiError(err)
	}
	defer c.keeper.attend()
	buf := c.proposer.Buffer()
	cmd := fsm.Acquire{
		Session: call.Session.ID(), TTL: o.ttl, Request: call.Request, Acked: call.Acked,
		Name: name, Wait: wait, Mode: o.mode(), Limit: o.limit, Weight: o.weight, Priority: o.priority,
		Label: o.label, HasValue: o.hasValue, Value: o.value, Others: o.others, Delay: o.delay,
		While: c.within(ctx), Refuse: o.refuse, Election: o.election,
	}.AppendTo((*buf)[:0])
	out, unknown, err := c.admitted(ctx, c.proposer.Entries, cmd)
	c.proposer.Free(buf)
	if err != nil {
		call.GiveUp(unknown)
		return nil, err
	}
	return c.proceed(ctx, call, wake, name, o, out, unknown)
}

// proceed goes on with a call whose command has its outcome; unknown says that an earlier attempt
// may still be carried out.
func (c *Cluster) proceed(ctx context.Context, call session.Call, wake waiter, name string, o options,
	out fsm.Outcome, unknown bool,
) (*Lease, error) {
	next := call.Answered(out, unknown, c.clock.Now())
	c.keeper.attend()
	switch next {
	case session.Take:
		return c.take(call, name, out.Token, o)
	case session.Wait:
		return c.await(ctx, call, wake, name, o)
	case session.Again:
		return nil, errAgain
	}
	switch out.Code {
	case fsm.CodeLimitMismatch:
		return nil, c.limitMismatch(name, o)
	case fsm.CodeHeld:
		return nil, heldError(name, out.Holder, c.holderOf(name).Holder.Value, out.Waiters)
	case fsm.CodeDeadlock:
		return nil, fmt.Errorf("%w: %q", ErrDeadlock, public(name))
	case fsm.CodeDone:
		return nil, &doneError{*out.Holder}
	case fsm.CodeUnknownNode: // the group has forgotten this node while it was away
		if err := c.hello(ctx); err != nil {
			return nil, err
		}
		return nil, errAgain
	case fsm.CodeStaleIncarnation: // the group has forgotten this process, which leaves or was removed
		if err := c.stopped(); err != nil {
			return nil, err
		}
		return nil, ErrRemoved
	}
	return nil, refused(out)
}

// await waits in the queue for the local replica to apply the grant.
func (c *Cluster) await(ctx context.Context, call session.Call, wake waiter, name string, o options) (*Lease, error) {
	select {
	case w := <-wake:
		if w.err != nil {
			call.GiveUp(false) // the session may live on, and the request alone be over
			if err := c.stopped(); err != nil {
				return nil, err
			}
			return nil, errAgain
		}
		if o.manual {
			c.keeper.handOver(ctx, call.Session)
		}
		return c.take(call, name, w.token, o)
	case <-ctx.Done():
		held := c.holderOf(name)
		call.GiveUp(true)
		return nil, fmt.Errorf("%w: %w", ctx.Err(), held)
	case <-c.closing:
		return nil, c.stopped()
	}
}

// take makes the lease of a grant.
func (c *Cluster) take(call session.Call, name string, token uint64, o options) (*Lease, error) {
	l := &tenure{c: c, asked: o.asked, label: o.label, others: o.others, election: o.election}
	terms := session.Terms{MinHold: o.minHold, MaxHold: o.maxHold, Delay: o.delay}
	if !call.Take(&l.grant, holding{l}, name, token, terms, c.clock.Now()) {
		return nil, errAgain
	}
	if err := c.stopped(); err != nil { // Close may have looked for leases before this one was there
		c.keeper.lose(call.Session, err)
		return nil, err
	}
	if o.maxHold > 0 {
		l.capHold(o.maxHold)
	}
	return l.handle(), nil
}

// refused turns an outcome that grants nothing into an error.
func refused(out fsm.Outcome) error {
	switch out.Code {
	case fsm.CodeInvalid:
		return invalid("command", "was refused by the group")
	case fsm.CodeTokensExhausted:
		return &ExhaustedError{What: "fencing tokens of this group"}
	case fsm.CodeTooManyLocks:
		return &ExhaustedError{What: "locks in this group", Limit: fsm.LocksMax}
	case fsm.CodeTooManyKeys:
		return &ExhaustedError{What: "finished Once keys in this group", Limit: fsm.KeysMax}
	case fsm.CodeTooManyWaiters:
		return &ExhaustedError{What: "waiters", Limit: fsm.WaitersMax}
	case fsm.CodeTooManyHolders:
		return &ExhaustedError{What: "holders of a lock", Limit: fsm.HoldersMax}
	case fsm.CodeTooManySessions:
		return &ExhaustedError{What: "sessions in this group", Limit: fsm.SessionsMax}
	case fsm.CodeTooManyNodes:
		return &ExhaustedError{What: "nodes in this group", Limit: fsm.NodesMax}
	case fsm.CodeTooManyRequests:
		return &ExhaustedError{What: "unfinished requests of a session", Limit: fsm.SpansMax}
	case fsm.CodeValuesFull:
		return &ExhaustedError{What: "bytes of values in this group", Limit: fsm.ValuesBytesMax}
	}
	return fmt.Errorf("holdfast: unexpected outcome %v", out.Code)
}

func checkCall(ctx context.Context, name string) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return checkText("name", name, 1, NameMax)
}
