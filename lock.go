package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Acquire waits, first in, first out over the whole fleet, until the lock is granted or ctx ends.
// name has 1 to 512 bytes of UTF-8 without control characters.
//
// ctx bounds the waiting. Cancelling it after Acquire has returned does not end the lease; the
// lease keeps ctx's values. If ctx ends first, the error is that of ctx, and also
//
//   - a *HeldError if another holder has the lock,
//   - ErrNoQuorum if the node could not reach the group before the deadline,
//   - ErrExpired if an answer came after the end of the lease that it granted,
//   - ErrUnknownOutcome if the group may have applied the command. Then an unused grant may be left;
//     it ends within the TTL, and a second call may have to wait for that.
func (c *Cluster) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	o, err := c.prepare(ctx, callAcquire, name, opts)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, name, true, o)
}

// TryAcquire is Acquire without waiting: if the lock has a holder or waiters, it returns a
// *HeldError at once. WithPriority and WithDeadlockCheck, which are about waiting, are
// ErrInvalid.
func (c *Cluster) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	o, err := c.prepare(ctx, callTryAcquire, name, opts)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, name, false, o)
}

// Do acquires the lock, runs fn, and releases the lock when fn has returned or panicked. fn's
// context ends when the lease is lost or ctx ends. Do returns the error of Acquire, or that of fn,
// joined with ErrLost if the lease was lost, also if only the release finds that: in an outage that began
// while fn ran, for one. WithNoWait returns a *HeldError instead of waiting.
//
// After fn, Do waits until the group has confirmed the release, also if ctx has ended: without a
// majority for a TTL at most, or until the node closes. Then the release goes on in the background.
func (c *Cluster) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...Option) error {
	if fn == nil {
		return invalid("fn", "is nil")
	}
	o, err := c.prepare(ctx, callDo, name, opts)
	if err != nil {
		return err
	}
	l, err := c.ask(ctx, name, !o.noWait, o)
	if err != nil {
		return err
	}
	return l.use(ctx, SpanDo, fn).all()
}

// arguments checks what is the same for every call about a lock or an election.
func (c *Cluster) arguments(ctx context.Context, by call, name string, opts []Option) (options, error) {
	if err := checkCall(ctx, name); err != nil {
		return options{}, err
	}
	return gather(&c.cfg, by, opts)
}

// prepare checks the arguments of a call that asks for a lock.
func (c *Cluster) prepare(ctx context.Context, by call, name string, opts []Option) (options, error) {
	o, err := c.arguments(ctx, by, name, opts)
	if err != nil {
		return options{}, err
	}
	return o, c.stopped()
}

// ask requests a lock after the arguments were checked, with the hooks and counters of a request.
func (c *Cluster) ask(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	o.asked = ctx
	ctx, told := c.asks(ctx, name)
	l, err := c.request(ctx, name, wait, o)
	told.over(l, err)
	return l, err
}

// request is ask without hooks and counters.
func (c *Cluster) request(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	if err := c.joined(ctx); err != nil {
		return nil, err
	}
	laps := laps{of: name}
	for {
		l, err := c.try(ctx, name, wait, o)
		if !errors.Is(err, errAgain) {
			return l, laps.explain(err)
		}
		if err := laps.next(ctx, c, err); err != nil {
			return nil, err
		}
	}
}

// asking is a request for a lock, from the call to its end, for hooks, counters and spans.
type asking struct {
	c     *Cluster
	name  string
	began lease.Instant
	span  openSpan
}

// asks begins the span of a request. name is the name of the lock, or the key of Once.
func (c *Cluster) asks(ctx context.Context, name string) (context.Context, asking) {
	began := c.clock.Now()
	ctx, span := c.hooks.begin(ctx, Span{Kind: SpanAcquire, Name: name})
	return ctx, asking{c, name, began, span}
}

// over reports the end of a request.
func (a asking) over(l *Lease, err error) {
	a.c.ended(a.name, l, err, time.Duration(a.c.clock.Now()-a.began))
	var token Token
	if err == nil {
		token = l.Token()
	}
	a.span.over(token, err)
}

// try requests a lock once, when it is this call's turn. The caller must try again after an error that is
// errAgain.
func (c *Cluster) try(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	if err := c.enter(ctx, seam.Request); err != nil {
		return nil, err
	}
	l, err := c.attempt(ctx, name, wait, o)
	yielded := errors.Is(err, ErrYielded) // the other group may grant the lock
	if !yielded && !errors.Is(err, errAgain) {
		return l, err
	}
	if err := c.stopped(); err != nil {
		return nil, err
	}
	if yielded {
		return nil, errAgain
	}
	return nil, err
}

// waiter receives the first wakeup of a call that waits in the queue.
type waiter chan wakeup

// wakeup ends the waiting of a queued call.
type wakeup struct {
	token uint64
	err   error // set: the session is over, or the request was withdrawn from under the call
}

// Granted wakes the call with its token.
func (w waiter) Granted(token uint64) { w.wake(wakeup{token: token}) }

// Over wakes the call because its session or its request is over.
func (w waiter) Over(err error) { w.wake(wakeup{err: err}) }

func (w waiter) wake(first wakeup) {
	select {
	case w <- first:
	default:
	}
}

// attempt requests the lock under one request number of one session, for a call that has its turn.
func (c *Cluster) attempt(ctx context.Context, name string, wait bool, o options) (*Lease, error) {
	wake := make(waiter, 1)
	o.sent = c.clock.Now()
	call, err := c.keeper.table.Ask(o.ttl, o.manual, wake, o.sent)
	if err != nil {
		c.group.Leave(seam.Request)
		return nil, c.apiError(err)
	}
	defer c.keeper.attend()
	buf := c.keeper.buffer()
	cmd := fsm.Acquire{
		Session: call.Session.ID(), TTL: o.ttl, Request: call.Request, Acked: call.Acked,
		Name: name, Wait: wait, Terms: fsm.Terms{
			Mode: o.mode(), Limit: o.limit, Weight: o.weight, Priority: o.priority, Label: o.label,
			Delay: o.delay, Election: o.election,
		},
		HasValue: o.hasValue, Value: o.value, Others: o.others, While: c.within(ctx), Refuse: o.refuse,
	}.AppendTo((*buf)[:0])
	out, unknown, err := c.admitted(ctx, seam.Request, cmd)
	c.keeper.buffers.Put(buf)
	if err != nil {
		call.GiveUp(unknown)
		return nil, err
	}
	return c.proceed(ctx, call, wake, name, o, out, unknown)
}

// proceed handles the outcome of a call's command; unknown says that an earlier attempt may still be
// carried out.
func (c *Cluster) proceed(ctx context.Context, call session.Call, wake waiter, name string, o options,
	out fsm.Outcome, unknown bool,
) (*Lease, error) {
	c.keeper.explain(ctx, call.Lost(out)...)
	now := c.clock.Now()
	next := call.Answered(out, unknown, now)
	c.keeper.attend()
	switch next {
	case session.Take:
		return c.take(call, name, out.Token, o, now)
	case session.Wait:
		return c.await(ctx, call, wake, name, o)
	case session.Again:
		return nil, c.overBy(call, o)
	}
	switch out.Code {
	case fsm.CodeLimitMismatch:
		return nil, c.limitMismatch(ctx, name, o)
	case fsm.CodeHeld:
		return nil, heldError(name, out.Holder, c.holderOf(ctx, name).Holder.Value, out.Waiters)
	case fsm.CodeDeadlock:
		return nil, fmt.Errorf("%w: %q", ErrDeadlock, name)
	case fsm.CodeDone:
		return nil, &doneError{*out.Holder}
	case fsm.CodeUnknownNode: // the group has forgotten this node while it was away
		if err := c.node.Hello(ctx); err != nil {
			return nil, c.apiError(err)
		}
		return nil, errAgain
	case fsm.CodeStaleIncarnation: // the group has forgotten this process: its node leaves or was removed
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
		return c.take(call, name, w.token, o, c.clock.Now())
	case <-ctx.Done():
		held := c.holderOf(ctx, name, o.others...)
		call.GiveUp(true)
		return nil, fmt.Errorf("%w: %w", ctx.Err(), held)
	case <-c.closing:
		return nil, c.stopped()
	}
}

// take makes the lease of a grant.
func (c *Cluster) take(call session.Call, name string, token uint64, o options, now lease.Instant) (*Lease, error) {
	l := &tenure{c: c, asked: o.asked, label: o.label, others: o.others, election: o.election}
	terms := session.Terms{MinHold: o.minHold, MaxHold: o.maxHold, Delay: o.delay}
	if !call.Take(&l.grant, holding{l}, name, token, terms, now) {
		return nil, c.overBy(call, o)
	}
	if err := c.stopped(); err != nil { // Close may have ended the leases before this one was among them
		c.keeper.lose(call.Session, err)
		return nil, err
	}
	if o.maxHold > 0 {
		l.capHold()
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
	case fsm.CodeOverQuota, fsm.CodeSessionsOverQuota:
		if out.Over != nil {
			return overQuota(out.Over)
		}
	case fsm.CodeTooManyQuotas:
		return &ExhaustedError{What: "quotas in this group", Limit: fsm.QuotasMax}
	case fsm.CodeTooManyResized:
		return &ExhaustedError{What: "resized semaphores in use in this group", Limit: fsm.ResizesMax}
	case fsm.CodeValuesFull:
		return &ExhaustedError{What: "bytes of values in this group", Limit: fsm.ValuesBytesMax}
	case fsm.CodeTooOld:
		return fmt.Errorf("%w: the feature level of the group is above %d, the highest that this version knows: update this node", ErrIncompatible, fsm.LevelKnown)
	}
	return fmt.Errorf("holdfast: unexpected outcome %v", out.Code)
}

func checkCall(ctx context.Context, name string) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	return checkText("name", name, 1, NameMax)
}

// AcquireAll waits until the group can grant all names together, by one command; the caller never
// holds some of them. The set waits in the queue of each name, and no later waiter overtakes it in
// any of them. So sets never wait for each other in a cycle, and single holders do not starve them.
// The set has one lease and one token: Release, loss and ForceRelease of one name end all. WithValue
// and Lease.Set write the value of the first name.
//
// There are 1 to 64 names, all different. If there are several they share a {tag}: the first part
// in braces is the same in all, as in "{order-7}/stock" and "{order-7}/bill". WithLimit is
// ErrInvalid; WithShared shares all names. Otherwise it is like Acquire.
func (c *Cluster) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Lease, error) {
	if len(names) == 0 || len(names) > NamesMax {
		return nil, invalid("names", "%d, not 1 to %d", len(names), NamesMax)
	}
	for i, name := range names {
		if err := checkCall(ctx, name); err != nil {
			return nil, err
		}
		switch {
		case slices.Contains(names[:i], name):
			return nil, invalid("names", "%q is there twice", name)
		case i > 0 && (tag(name) == "" || tag(name) != tag(names[0])):
			return nil, invalid("names", "%q and %q share no {tag}", names[0], name)
		}
	}
	o, err := c.prepare(ctx, callAcquireAll, names[0], opts)
	if err != nil {
		return nil, err
	}
	o.others = slices.Clone(names[1:])
	return c.ask(ctx, names[0], true, o)
}

// tag is what stands in the first braces of a name, "" if nothing does.
func tag(name string) string {
	_, rest, _ := strings.Cut(name, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok {
		return ""
	}
	return tag
}

// enter waits for a turn.
func (c *Cluster) enter(ctx context.Context, class seam.Class) error {
	return c.apiError(c.group.Enter(ctx, class))
}

// admitted brings a command to the group after enter. unknown says whether an attempt may have been
// carried out.
func (c *Cluster) admitted(ctx context.Context, class seam.Class, cmd []byte) (out fsm.Outcome, unknown bool, err error) {
	out, unknown, err = c.group.Propose(ctx, class, cmd)
	return out, unknown, c.apiError(err)
}

// propose brings a command of a holder, or about one, to the group.
func (c *Cluster) propose(ctx context.Context, cmd fsm.Command) (out fsm.Outcome, unknown bool, err error) {
	if err := c.enter(ctx, seam.Holding); err != nil {
		return fsm.Outcome{}, false, err
	}
	return c.admitted(ctx, seam.Holding, fsm.Encode(cmd))
}

// read is a linearizable read.
func read[A fsm.Answer](ctx context.Context, c *Cluster, q fsm.Asks[A]) (A, error) {
	if err := c.stopped(); err != nil {
		var none A
		return none, err
	}
	answer, err := seam.Ask(ctx, c.group, seam.Committed, q)
	return answer, c.apiError(err)
}

// readLock is read of one lock, with some of its parts.
func (c *Cluster) readLock(ctx context.Context, name string, parts fsm.Parts) (fsm.LockState, error) {
	if err := c.stopped(); err != nil {
		return fsm.LockState{}, err
	}
	l, err := seam.Lock(ctx, c.group, seam.Committed, fsm.QueryLocks{Name: name, Parts: parts})
	return l, c.apiError(err)
}

// A look is bounded, for a client asks its replica: by the call's context and lookTime, and by lateTime
// where the context is over, for the call's caller waits no longer for an error that says more.
const (
	lookTime = time.Second
	lateTime = 50 * time.Millisecond
)

// look returns what this node knows of a name now, the zero value while it has no group, and where the
// replica of a client does not answer in time.
func (c *Cluster) look(ctx context.Context, name string) (now fsm.NameState) {
	for _, now = range c.looks(ctx, name, nil) {
	}
	return now
}

// looks yields a look at each of the names of a set, all of them within the time of one.
func (c *Cluster) looks(ctx context.Context, name string, others []string) iter.Seq2[string, fsm.NameState] {
	return func(yield func(string, fsm.NameState) bool) {
		limit := lookTime
		if ctx.Err() != nil {
			ctx, limit = context.WithoutCancel(ctx), lateTime
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		for _, name := range append([]string{name}, others...) {
			known, err := seam.Ask(ctx, c.group, seam.Now, fsm.QueryName{Name: name})
			if err != nil {
				known = fsm.NameState{}
			}
			if !yield(name, known) {
				return
			}
		}
	}
}

// endOf returns how a grant ended, nil if the group does not remember. A call asks whose answer was
// lost: its replica may be gone, and the next one knows.
func (c *Cluster) endOf(ctx context.Context, name string, token uint64) (*fsm.PastGrant, error) {
	now, err := seam.Ask(ctx, c.group, seam.Committed, fsm.QueryName{Name: name, Token: token})
	return now.End, c.apiError(err)
}

// unknownEnd is the error of a call that does not know how a grant has ended. unread is that of endOf, nil
// where the group does not remember.
func unknownEnd(unread error) error {
	if unread == nil {
		return ErrUnknownOutcome
	}
	return open(true, unread)
}
