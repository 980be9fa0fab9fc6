package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/link"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Ask implements seam.Group.
func (g *Group) Ask(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	for n := 1; ; n++ {
		_, changed := g.now()
		answer, err := g.ask(ctx, view, q)
		if err == nil {
			return answer, nil
		}
		if err := g.again(ctx, view, err, n, changed); err != nil {
			return nil, err
		}
	}
}

// AskOnce asks the replica that serves this node now. The error is seam.ErrNoGroup if that is gone, or
// there is none.
func (g *Group) AskOnce(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	answer, err := g.ask(ctx, view, q)
	return answer, once(ctx, err)
}

// ask asks the replica that serves this node when its turn has come, once.
func (g *Group) ask(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	if err := g.wait(ctx, g.asks); err != nil {
		return nil, err
	}
	defer func() { <-g.asks }()
	c, _ := g.now()
	if c == nil {
		return nil, seam.ErrNoGroup
	}
	return c.ask(ctx, view, q)
}

// once is the error of a question that is not asked again here.
func once(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &seam.UnreachedError{Ended: ctx.Err()}
	case lost(err):
		return seam.ErrNoGroup
	}
	return err
}

// lost reports whether a replica is gone, or does not know its group.
func lost(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, seam.ErrNoGroup) || errors.Is(err, seam.ErrSuperseded)
}

// again returns nil, after a pause, if a question is to be asked again after err.
func (g *Group) again(ctx context.Context, view seam.View, err error, n int, changed <-chan struct{}) error {
	if ctx.Err() != nil {
		return &seam.UnreachedError{Ended: ctx.Err()}
	}
	switch {
	case !lost(err):
		return err
	case view == seam.Now:
		return seam.ErrNoGroup
	}
	select {
	case <-changed:
	case <-time.After(retry.Pause(n, rand.Float64())):
	case <-ctx.Done():
		return &seam.UnreachedError{Ended: ctx.Err()}
	case <-g.closed:
		return seam.ErrClosed
	}
	return nil
}

// ask asks the replica once.
func (c *conn) ask(ctx context.Context, view seam.View, q fsm.Question) (fsm.Answer, error) {
	r, sent, err := c.call(ctx, link.KindAsk, link.Call{Mode: uint8(view), Payload: fsm.EncodeQuestion(q)})
	switch {
	case err != nil && !sent:
		return nil, errGone
	case err != nil:
		return nil, err
	case r.Code != link.ReplyOK:
		return nil, replyError(r)
	}
	return fsm.DecodeAnswer(r.Payload)
}

// Pages implements seam.Group. The replica keeps the state of the first page until the last. If the
// replica is gone in between, the pages end with an error: another one has no such state.
func (g *Group) Pages(ctx context.Context, view seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		for n := 1; ; n++ {
			_, changed := g.now()
			begun, err := g.pages(ctx, view, q, yield)
			if err == nil || begun {
				return
			}
			if err = g.again(ctx, view, err, n, changed); err != nil {
				yield(fsm.LocksPage{}, err)
				return
			}
		}
	}
}

// PagesOnce is Pages at the replica that serves this node now. The error is seam.ErrNoGroup if that is
// gone before the first page, or there is none.
func (g *Group) PagesOnce(ctx context.Context, view seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		if begun, err := g.pages(ctx, view, q, yield); err != nil && !begun {
			yield(fsm.LocksPage{}, once(ctx, err))
		}
	}
}

// pages yields the pages that a replica has, and the error that ends them once there was one. begun
// says whether there was; else the error is left to the caller.
func (g *Group) pages(ctx context.Context, view seam.View, q fsm.QueryLocks, yield func(fsm.LocksPage, error) bool) (begun bool, err error) {
	turns := g.streams
	if q.Exact { // of one lock: no code of the caller runs before its end
		turns = g.asks
	}
	if err := g.turn(ctx, turns); err != nil {
		return false, err
	}
	defer func() { <-turns }()
	c, _ := g.now()
	if c == nil {
		return false, seam.ErrNoGroup
	}
	if begun, err = c.pages(ctx, view, q, yield); err == nil || !begun {
		return begun, err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if lost(err) {
		err = seam.ErrCut
	}
	yield(fsm.LocksPage{}, err)
	return true, err
}

// turn waits for a turn, which a list keeps while the code of its caller runs: that may wait for a list of
// its own, and for ever.
func (g *Group) turn(ctx context.Context, turns chan struct{}) error {
	bounded, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	err := g.wait(bounded, turns)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return &seam.OverloadError{}
	}
	return err
}

// pages yields the pages of one state. begun says whether there was one; without an error the caller
// has all that it wants.
func (c *conn) pages(ctx context.Context, view seam.View, q fsm.QueryLocks, yield func(fsm.LocksPage, error) bool) (begun bool, err error) {
	return c.stream(ctx, link.KindList, link.Call{Mode: uint8(view), Payload: fsm.EncodeQuestion(q)}, func(payload []byte) (more bool, err error) {
		answer, err := fsm.DecodeAnswer(payload)
		if err != nil {
			return false, err
		}
		page, ok := q.Read(answer)
		if !ok {
			return false, fmt.Errorf("%w: no page", link.ErrMalformed)
		}
		return yield(page, nil), nil
	})
}

// stream is a call with several replies: take has the payload of each, and wants more or not. begun
// says whether there was one; without an error take has had all that it wants.
func (c *conn) stream(ctx context.Context, kind link.Kind, m link.Call, take func([]byte) (more bool, err error)) (begun bool, err error) {
	p, err := c.begin(ctx, kind, m)
	if err != nil {
		return false, errGone
	}
	defer p.end()
	for {
		r, err := p.wait(ctx)
		switch {
		case err != nil:
			return begun, err
		case r.Code != link.ReplyOK:
			return begun, replyError(r)
		case len(r.Payload) == 0:
			return begun, nil
		}
		begun = true
		if more, err := take(r.Payload); err != nil || !more {
			_ = c.out.Send(link.KindCancel, p.number, nil)
			return true, err
		}
		if err := c.out.Send(link.KindNext, p.number, nil); err != nil {
			return true, errGone
		}
	}
}
