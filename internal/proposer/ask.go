package proposer

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Ask implements seam.Group.
func (p *Proposer[G]) Ask(ctx context.Context, at seam.View, q fsm.Question) (fsm.Answer, error) {
	g, far, err := p.asked(ctx, at)
	for n := 1; far != nil; n++ {
		answer, farErr := far.AskOnce(ctx, at, q)
		if err := p.goneFar(ctx, at, farErr, n); err != nil || farErr == nil {
			return answer, err
		}
		g, far, err = p.asked(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	if long, ok := q.(interface{ Long() bool }); ok && long.Long() {
		return g.Fork().Answer(q), nil
	}
	return g.Answer(q), nil
}

// asked is the replica whose state answers: this node's, or that of another node.
func (p *Proposer[G]) asked(ctx context.Context, at seam.View) (g G, far Far, err error) {
	if far := p.farNow(p.view.Load()); far != nil {
		return g, far, nil
	}
	if at == seam.Committed {
		g, err = p.Barrier(ctx)
		if errors.Is(err, seam.ErrNoGroup) { // another node's replica has become the way meanwhile
			return g, p.far, nil
		}
		return g, nil, err
	}
	view := p.view.Load()
	if !view.here {
		return g, nil, seam.ErrNoGroup
	}
	return view.group, nil, nil
}

// goneFar returns nil, after a pause, if a question is to be asked again after err of a replica of
// another node: that one is gone.
func (p *Proposer[G]) goneFar(ctx context.Context, at seam.View, err error, n int) error {
	_, changed := p.Current()
	if !errors.Is(err, seam.ErrNoGroup) || at == seam.Now {
		return err
	}
	return p.Pause(ctx, n, changed)
}

// Pages implements seam.Group. All that takes long is answered by a fork: the replica goes on
// applying meanwhile.
func (p *Proposer[G]) Pages(ctx context.Context, at seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		for n := 1; ; n++ {
			g, far, err := p.asked(ctx, at)
			switch {
			case err != nil:
				yield(fsm.LocksPage{}, err)
				return
			case far == nil:
				pages(ctx, g, q, yield)
				return
			}
			if err = pagesFar(ctx, far, at, q, yield); err == nil {
				return
			}
			if err = p.goneFar(ctx, at, err, n); err != nil {
				yield(fsm.LocksPage{}, err)
				return
			}
		}
	}
}

// pages yields the pages of a replica's state.
func pages[G Group](ctx context.Context, g G, q fsm.QueryLocks, yield func(fsm.LocksPage, error) bool) {
	if !q.Long() {
		if page, _ := q.Read(g.Answer(q)); page.Next == nil {
			yield(page, nil)
			return
		}
	}
	m := g.Fork()
	for next := &q; next != nil && ctx.Err() == nil; {
		page, _ := next.Read(m.Answer(*next))
		if !yield(page, nil) {
			return
		}
		next = page.Next
	}
	if err := ctx.Err(); err != nil {
		yield(fsm.LocksPage{}, err)
	}
}

// pagesFar yields the pages of another node's replica, and returns the error of one that gave none.
func pagesFar(ctx context.Context, far Far, at seam.View, q fsm.QueryLocks, yield func(fsm.LocksPage, error) bool) (failed error) {
	begun := false
	for page, err := range far.PagesOnce(ctx, at, q) {
		if err != nil && !begun {
			return err
		}
		begun = true
		if !yield(page, err) {
			return nil
		}
	}
	return nil
}
