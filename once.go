package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/seam"
)

const (
	keepDefault = 24 * time.Hour
	// KeepMax is the longest that a finished key can be remembered.
	KeepMax = fsm.KeepMax
)

// WithKeepFor sets the time for which the group remembers a finished key: at least d, and normally at
// most d + max(d/8, 200 ms) and the time of 65 commits. A restart of all nodes adds d/64. d is 1 ms
// to ten years. Default 24 h.
func WithKeepFor(d time.Duration) Option {
	return option{withKeepFor, func(o *options) error {
		if d < time.Millisecond || d > KeepMax {
			return invalid("WithKeepFor", "%v is not 1ms to %v", d, KeepMax)
		}
		o.keep = d
		return nil
	}}
}

// WithWait makes Once and BeginOnce wait while another call runs the key: until the key is finished,
// or until it is this call's turn to run it. Without WithWait they return at once.
func WithWait() Option {
	return option{withWait, func(o *options) error { o.wait = true; return nil }}
}

// OnceResult is what became of a key.
type OnceResult struct {
	Ran      bool   // by this call
	Finished bool   // by this call or before
	Token    Token  // of the run by By; zero if there was none
	By       Holder // of the finished run, or of the one under way
}

// doneError says that a Once key is finished.
type doneError struct{ by fsm.Holder }

var errFinished = errors.New("holdfast: finished")

// Is reports whether target is errFinished.
func (e *doneError) Is(target error) bool { return target == errFinished }

func (e *doneError) Error() string {
	return fmt.Sprintf("holdfast: finished with token %d", e.by.Token)
}

// Once runs fn at most once for key among all nodes of the fleet, for as long as the key is
// remembered (WithKeepFor). At most one call runs it at a time.
//
//   - If fn returns nil, the key is finished: later calls report Finished and do not run fn. That is
//     so also if ctx has ended meanwhile: a function that stops early returns context.Cause of its
//     context.
//   - If fn returns an error, the key stays open: Once returns the error, and another call may run
//     the key. So it does with ErrReleased if fn releases its lease.
//   - If the node that runs fn dies or loses its lease, another call may run the key again, with a
//     higher token. So fn gives its token to what it writes to, or does no harm when it is
//     repeated.
//   - If the key runs elsewhere, Once returns at once, neither Ran nor Finished, without an error;
//     with WithWait it waits.
//
// key has 1 to 512 bytes of UTF-8 without control characters, and shares no state with a lock of the
// same name. fn's context ends with the lease or with ctx. ErrLost means that the lease was lost: fn
// may have had its effect, and the key is not finished. ErrUnknownOutcome means that fn returned
// nil, and that the group may or may not have recorded it; ErrExhausted, that it has not. If this node's replica knows that the key
// is finished, Once does not ask the group. A run costs two commands, as a lock does. After fn, Once
// waits for the answer of the group, also if ctx has ended: without a majority for a TTL at most, or
// until the node closes.
func (c *Cluster) Once(ctx context.Context, key string, fn func(context.Context, *Lease) error, opts ...Option) (OnceResult, error) {
	if fn == nil {
		return OnceResult{}, invalid("fn", "is nil")
	}
	run, r, err := c.begin(ctx, callOnce, key, opts)
	if run == nil {
		return r, err
	}
	return run.call(ctx, fn, r)
}

// finish ends the lease and proposes that the key is finished. The lease ends first: the answer may
// arrive when the group has forgotten the key already, and another call runs it. It ends only for a
// command that has its turn: without one nothing is given up. After a lost answer the group tells
// the next attempt whether it has recorded the run.
func (r *Run) finish(ctx context.Context) (bool, error) {
	l := r.lease
	if err := l.Err(); err != nil && !r.sent {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, l.c.apiError(&seam.UnreachedError{Ended: err})
	}
	if err := l.c.enter(ctx, seam.Holding); err != nil {
		return false, err
	}
	if !r.sent {
		if !l.grant.End(ErrReleased) {
			l.c.group.Leave(seam.Holding)
			return false, l.Err()
		}
		r.sent, r.since = true, l.c.clock.Now()
	}
	ctx, span := l.c.hooks.begin(ctx, l.span(SpanRelease))
	finished, err := r.propose(ctx)
	span.over(l.Token(), err)
	return finished, err
}

// propose brings the command to the group, for a run whose lease has ended and which has its turn.
func (r *Run) propose(ctx context.Context) (bool, error) {
	l := r.lease
	s := l.grant.Session()
	out, unknown, err := l.c.admitted(ctx, seam.Holding, fsm.Encode(fsm.Finish{
		Session: s.ID(), Acked: s.Acked(), Name: l.grant.Name(), Token: l.grant.Token(),
		Keep: wholeMillis(r.keep),
	}))
	r.unknown = r.unknown || unknown
	switch {
	case err != nil:
		if !r.owed {
			r.owed = true
			l.c.keeper.releaseLater(l.tenure)
		}
		return false, err
	case out.Code == fsm.CodeOK:
		return true, nil
	case r.unknown && l.c.clock.Now().Sub(r.since) >= r.keep/2: // by clocks that differ
		return false, ErrUnknownOutcome // an earlier attempt may have finished it, and it may be forgotten since
	}
	return false, lost(ErrExpired)
}

// ForgetOnce removes the record of a finished key: the next call of Once runs it again. The replica
// of another node learns of it up to a heartbeat later, or when it is no longer cut off, and until
// then Once may still report Finished there. For a key without a run, or one that the group has
// forgotten, ForgetOnce returns nil; so does a second call. While a call runs the key, it returns a
// *HeldError. A run that finishes after ForgetOnce has begun stays recorded. ContextWithReason says
// why.
func (c *Cluster) ForgetOnce(ctx context.Context, key string) error {
	r, err := c.InspectOnce(ctx, key)
	switch {
	case err != nil || r.Token == 0:
		return err
	case !r.Finished:
		return &HeldError{Name: key, Holder: r.By, Token: r.Token}
	}
	reason, err := reasonIn(ctx)
	if err == nil {
		err = c.acted(ctx, fsm.Act{Kind: fsm.ActForgetOnce, Name: fsm.OnceName(key), Token: uint64(r.Token), Reason: reason})
	}
	if err != nil {
		return err
	}
	return c.carry(ctx, fsm.Forget{Name: fsm.OnceName(key), Token: uint64(r.Token)})
}

// Slot returns the key of one tick of a schedule for Once, the same on every node. at is the
// instant that the schedule names, not the time at which a timer fired. Slot rounds it to the
// nearest multiple of every since the Unix epoch, so that nodes whose clocks differ by less than half
// of every get the same key. Choose an every of which all instants of the schedule are multiples: 30
// minutes for "hourly at :30". If every is zero or less, Slot does not round. Cluster.Every keeps
// such a schedule by itself.
func Slot(job string, at time.Time, every time.Duration) string {
	at = at.UTC()
	if every > 0 {
		at = floor(at.Add(every/2), every)
	}
	return job + "@" + at.Format(time.RFC3339Nano)
}

// Run is the run of a Once key by code that cannot be a function: from BeginOnce to Finish or Abandon
// no other call runs the key, for as long as the lease is valid. Run is safe for concurrent use.
type Run struct {
	lease    *Lease
	keep     time.Duration
	turn     chan struct{} // capacity 1: full while a call finishes the key
	sent     bool          // the lease has ended for a command that finishes the key
	since    lease.Instant // when it was sent first
	unknown  bool          // an attempt may have been carried out
	owed     bool          // a release follows, in the background
	finished bool
}

// BeginOnce is Once for code that cannot be a function. It returns a Run if this call is to run the
// key; else the state of the key, and a nil Run. Errors are those of Once. The lease renews itself
// until Finish or Abandon: a Run without either keeps the key as long as its process lives.
func (c *Cluster) BeginOnce(ctx context.Context, key string, opts ...Option) (*Run, OnceResult, error) {
	return c.begin(ctx, callBeginOnce, key, opts)
}

// begin is BeginOnce for the call that the options were given to.
func (c *Cluster) begin(ctx context.Context, of call, key string, opts []Option) (*Run, OnceResult, error) {
	o, err := c.prepare(ctx, of, key, opts)
	if err != nil {
		return nil, OnceResult{}, err
	}
	o.asked = ctx
	within, asking := c.asks(ctx, key)
	l, err := c.requestRun(within, key, o)
	asking.over(l, err)
	var done *doneError
	var held *HeldError
	switch {
	case errors.As(err, &done):
		return nil, OnceResult{Finished: true, Token: Token(done.by.Token), By: holder(done.by, nil)}, nil
	case errors.As(err, &held) && !o.wait:
		return nil, OnceResult{Token: held.Token, By: held.Holder}, nil
	case err != nil:
		return nil, OnceResult{}, err
	}
	by := Holder{NodeID: c.ID(), Node: c.cfg.Name, Label: l.label, Token: l.Token(), Weight: 1}
	return &Run{lease: l, keep: cmp.Or(o.keep, keepDefault), turn: make(chan struct{}, 1)}, OnceResult{Ran: true, Token: l.Token(), By: by}, nil
}

// requestRun requests the lock of a key, unless this node knows that the key is finished.
func (c *Cluster) requestRun(ctx context.Context, key string, o options) (*Lease, error) {
	if err := c.joined(ctx); err != nil {
		return nil, err
	}
	name, laps := fsm.OnceName(key), laps{of: key}
	for {
		if by := c.look(ctx, name).Finished; by != nil {
			return nil, &doneError{*by}
		}
		l, err := c.try(ctx, name, o.wait, o)
		if !errors.Is(err, errAgain) {
			return l, laps.explain(err)
		}
		if err := laps.next(ctx, c, err); err != nil {
			return nil, err
		}
	}
}

// InspectOnce returns the state of a key by a linearizable read: Finished as long as the group
// remembers that; a Token alone while a call runs the key, and By names its node; a zero OnceResult
// for a key without a run.
func (c *Cluster) InspectOnce(ctx context.Context, key string) (r OnceResult, err error) {
	if err := checkCall(ctx, key); err != nil {
		return OnceResult{}, err
	}
	now, err := read(ctx, c, fsm.QueryName{Name: fsm.OnceName(key)})
	switch {
	case now.Finished != nil:
		r = OnceResult{Finished: true, Token: Token(now.Finished.Token), By: holder(*now.Finished, nil)}
	case now.Head != nil:
		r = OnceResult{Token: Token(now.Head.Token), By: holder(now.Head.Holder, nil)}
	}
	return r, err
}

// OnceKey is a key of Once: finished, or run by a call now.
type OnceKey struct {
	Key      string
	Finished bool
	Token    Token
	By       Holder // runs it, or has finished it
}

// OnceKeys lists, in the order of the keys, the keys that begin with prefix and which a call runs, or
// which are finished and remembered (WithKeepFor). It reads page by page, each linearizable: a key that
// is there from the call to the end of the list is in it, and of others the list may miss some. An error
// ends the list.
func (c *Cluster) OnceKeys(ctx context.Context, prefix string) iter.Seq2[OnceKey, error] {
	return func(yield func(OnceKey, error) bool) {
		err := checkPrefix(ctx, prefix)
		for q := (&fsm.QueryKeys{Prefix: prefix}); err == nil && q != nil; {
			var page fsm.KeysPage
			if page, err = read(ctx, c, *q); err != nil {
				break
			}
			for _, k := range page.Keys {
				if !yield(OnceKey{k.Key, k.Finished, Token(k.By.Token), holder(k.By, nil)}, nil) {
					return
				}
			}
			q = page.Next
		}
		if err != nil {
			yield(OnceKey{}, err)
		}
	}
}

// Lease is the lease of the run: its context ends when another call may run the key. Give its token to
// the resource with every write.
func (r *Run) Lease() *Lease { return r.lease }

// Finish records that the key is finished, for the time of WithKeepFor. ErrLost and ErrUnknownOutcome
// are those of Once; after Abandon the error is ErrReleased. After a call that returned nil, Finish
// returns nil. The lease goes on after a call that had no turn to send its command: its context was over before, or it
// is ErrExhausted. After another failure the key is given back in the background, and a further call says
// what became of it: nil if the key is finished, ErrLost if not.
func (r *Run) Finish(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return r.lease.c.apiError(&seam.UnreachedError{Ended: ctx.Err()})
	}
	if r.finished {
		return nil
	}
	var err error
	r.finished, err = r.finish(ctx)
	return err
}

// Abandon leaves the key open to another call. It releases the lease, and returns nil also after
// Finish.
func (r *Run) Abandon(ctx context.Context) error { return r.lease.Release(ctx) }

// call runs fn and finishes the key, or leaves it open where fn returns an error or panics.
func (r *Run) call(ctx context.Context, fn func(context.Context, *Lease) error, begun OnceResult) (result OnceResult, err error) {
	result = begun
	returned := false
	ctx, span := r.lease.c.hooks.begin(ctx, r.lease.span(SpanRun))
	defer func() {
		if !returned {
			err = errNotReturned // for the span alone: fn's panic goes on
		}
		span.over(r.lease.Token(), err)
	}()
	defer func() {
		end, done := r.lease.endTime(ctx)
		defer done()
		switch open := r.lease.Err(); {
		case !returned || err != nil:
		case open == nil:
			if result.Finished, err = r.finish(end); r.lease.Err() != nil {
				return
			}
		case errors.Is(open, ErrReleased): // by fn
			err = open
		}
		if e := r.lease.Release(end); errors.Is(e, ErrLost) {
			err = joinLoss(err, e)
		}
	}()
	err = r.lease.run(ctx, fn)
	returned = true
	return result, err
}
