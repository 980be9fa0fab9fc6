package proposer

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// Ask implements seam.Group.
func (p *Proposer[G]) Ask(ctx context.Context, at seam.View, q fsm.Question) (fsm.Answer, error) {
	g, err := p.asked(ctx, at)
	if err != nil {
		return nil, err
	}
	if long, ok := q.(interface{ Long() bool }); ok && long.Long() {
		return g.Fork().Answer(q), nil
	}
	return g.Answer(q), nil
}

// asked is the replica whose state answers.
func (p *Proposer[G]) asked(ctx context.Context, at seam.View) (G, error) {
	if at == seam.Committed {
		return p.Barrier(ctx)
	}
	view := p.view.Load()
	if !view.here {
		return view.group, seam.ErrNoGroup
	}
	return view.group, nil
}

// Pages implements seam.Group. All that takes long is answered by a fork: the replica goes on
// applying meanwhile.
func (p *Proposer[G]) Pages(ctx context.Context, at seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		g, err := p.asked(ctx, at)
		if err != nil {
			yield(fsm.LocksPage{}, err)
			return
		}
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
}
