package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// Run is the run of a Once key by code that cannot be a function: between BeginOnce and Finish or
// Abandon the key is this call's to run, for as long as its lease is valid. It is safe for
// concurrent use.
type Run struct {
	lease *Lease
	keep  time.Duration

	mu       sync.Mutex
	finished bool
}

// BeginOnce is Once for code that cannot be a function. It returns a Run if this call is to run the
// key; else what became of it, and a nil Run. Errors are those of Once. The lease renews itself
// until Finish or Abandon: a Run that is forgotten keeps the key from all others as long as its
// process lives.
func (c *Cluster) BeginOnce(ctx context.Context, key string, opts ...OnceOption) (*Run, OnceResult, error) {
	if err := checkCall(ctx, key); err != nil {
		return nil, OnceResult{}, err
	}
	o := onceOptions{options: options{ttl: c.cfg.TTL}, keep: keepDefault}
	for i, opt := range opts {
		if opt == nil {
			return nil, OnceResult{}, invalid(fmt.Sprintf("option %d", i), "is nil")
		}
		if err := opt.applyOnce(&o); err != nil {
			return nil, OnceResult{}, err
		}
	}
	if err := c.stopped(); err != nil {
		return nil, OnceResult{}, err
	}
	l, err := c.ask(ctx, fsm.OnceName(key), o.wait, o.options)
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
	return &Run{lease: l, keep: o.keep}, OnceResult{Ran: true, Token: l.Token(), By: by}, nil
}

// InspectOnce tells what became of a key, a linearizable read: Finished while it is remembered;
// neither Ran nor Finished and a Token while it runs, which By says where; and a zero OnceResult
// for a key that nobody has run.
func (c *Cluster) InspectOnce(ctx context.Context, key string) (r OnceResult, err error) {
	if err := checkCall(ctx, key); err != nil {
		return OnceResult{}, err
	}
	err = c.read(ctx, func(m *fsm.Machine) {
		if by, done := m.Key(key); done {
			r = OnceResult{Finished: true, Token: Token(by.Token), By: holder(by, nil)}
		} else if head, held := m.Head(fsm.OnceName(key)); held {
			r = OnceResult{Token: Token(head.Token), By: holder(head.Holder, nil)}
		}
	})
	return r, err
}

// Lease is that of the run: its context ends when another call may run the key; give its token to
// what the run writes.
func (r *Run) Lease() *Lease { return r.lease }

// Finish says that the key is done: it is remembered as KeepFor says. ErrLost and ErrUnknownOutcome
// are those of Once; ErrReleased follows Abandon. A second call returns nil after one that did.
func (r *Run) Finish(ctx context.Context) error {
	if ctx == nil {
		return invalid("context", "is nil")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return nil
	}
	var err error
	r.finished, err = r.lease.finish(ctx, r.keep)
	return err
}

// Abandon leaves the key open to another call. It is Release of the lease: nil also after Finish.
func (r *Run) Abandon(ctx context.Context) error { return r.lease.Release(ctx) }

// call runs fn and finishes the key, or leaves it open where fn returns an error or panics.
func (r *Run) call(ctx context.Context, fn func(context.Context, *Lease) error, begun OnceResult) (result OnceResult, err error) {
	result = begun
	returned := false
	ctx, span := r.lease.c.hooks.begin(ctx, r.lease.span(SpanRun))
	defer func() {
		if !returned {
			err = errNotReturned // which nobody else hears: fn's panic goes on
		}
		span.over(r.lease.Token(), err)
	}()
	defer func() {
		end, done := r.lease.endTime(ctx)
		defer done()
		if returned && err == nil && r.lease.Err() == nil {
			result.Finished, err = r.lease.finish(end, r.keep)
			return
		}
		if e := r.lease.Release(end); errors.Is(e, ErrLost) {
			err = joinLoss(err, e)
		}
	}()
	err = r.lease.run(ctx, fn)
	returned = true
	return result, err
}
