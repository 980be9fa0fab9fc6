package proposer

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// far is the replica of another node, which is reached or not.
type far struct {
	reached bool
	tried   int
	result  retry.Result
	err     error // of Try
	state   *fsm.Machine
}

func (f *far) Reached() bool { return f.reached }

func (f *far) Try(context.Context, seam.Class, []byte) (fsm.Outcome, retry.Result, error) {
	f.tried++
	return fsm.Outcome{}, f.result, f.err
}

func (f *far) AskOnce(_ context.Context, _ seam.View, q fsm.Question) (fsm.Answer, error) {
	if !f.reached {
		return nil, seam.ErrNoGroup
	}
	return f.state.Answer(q), nil
}

func (f *far) PagesOnce(ctx context.Context, at seam.View, q fsm.QueryLocks) iter.Seq2[fsm.LocksPage, error] {
	return func(yield func(fsm.LocksPage, error) bool) {
		answer, err := f.AskOnce(ctx, at, q)
		page := fsm.LocksPage{}
		if err == nil {
			page, _ = q.Read(answer)
		}
		yield(page, err)
	}
}

func (f *far) Watch(context.Context, string, bool) (end func()) { return func() {} }

func lent() (*Proposer[*replica], *far) {
	p, f := newProposer(), &far{reached: true, result: retry.Answered, state: after(7).state}
	p.Lend(f)
	return p, f
}

// The way goes through the replica of another node for as long as this one has none.
func TestCallsGoThroughTheReplicaOfAnotherNodeWhileThereIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f := lent()
		near := after(9)
		if out, unknown, err := holding(t.Context(), p, fsm.Serve{}); err != nil || unknown || out.Code != fsm.CodeOK || f.tried != 1 {
			t.Errorf("%v, %t, %v after %d attempts", out, unknown, err, f.tried)
		}
		p.Start(near)
		if _, _, err := holding(t.Context(), p, fsm.Serve{}); err != nil || f.tried != 1 || len(near.asked) != 1 {
			t.Errorf("%v after %d attempts far and %d near", err, f.tried, len(near.asked))
		}
		p.Retire()
		if _, _, err := p.Propose(t.Context(), seam.Attempt, fsm.Encode(fsm.Serve{})); err != nil || f.tried != 2 {
			t.Errorf("%v after %d attempts", err, f.tried)
		}
		f.reached = false
		if _, _, err := p.Propose(t.Context(), seam.Attempt, fsm.Encode(fsm.Serve{})); !errors.Is(err, seam.ErrNoGroup) {
			t.Errorf("an attempt that reaches nobody: %v", err)
		}
	})
}

// A command whose answer is lost far goes on near, and its caller hears that it may have been
// carried out (P2).
func TestACommandWhoseAnswerIsLostFarGoesOnNear(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result retry.Result
		err    error
	}{"no answer": {retry.Unknown, seam.ErrNoGroup}, "not sent": {retry.NotSent, seam.ErrNoGroup}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, f := lent()
				f.result, f.err = c.result, c.err
				near := after(9)
				time.AfterFunc(time.Second, func() { p.Start(near) })
				_, unknown, err := holding(t.Context(), p, fsm.Serve{})
				if err != nil || unknown != (c.result == retry.Unknown) || f.tried == 0 || len(near.asked) != 1 {
					t.Errorf("unknown %t, %v after %d attempts far and %d near", unknown, err, f.tried, len(near.asked))
				}
			})
		})
	}
}

func TestAnOutcomeFromFarMayComeAfterAnAttemptOfUnknownEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f := lent()
		f.err = errors.New("an earlier attempt may have been carried out")
		if _, unknown, err := holding(t.Context(), p, fsm.Serve{}); !unknown || err != nil {
			t.Errorf("unknown %t, %v", unknown, err)
		}
	})
}

// A question finds the replica that is there, and a linearizable one waits for it.
func TestAQuestionIsAnsweredFarWhileThereIsNoReplicaHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f := lent()
		ask := func(at seam.View, want uint64) {
			t.Helper()
			if a, err := p.Ask(t.Context(), at, fsm.QueryGroup{}); err != nil || a.State() != want {
				t.Errorf("%v, %v, want %d", a, err, want)
			}
			for page, err := range p.Pages(t.Context(), at, fsm.QueryLocks{Exact: true, Name: "x"}) {
				if err != nil || page.At != want {
					t.Errorf("a page of %d, %v, want %d", page.At, err, want)
				}
			}
		}
		ask(seam.Now, 7)
		ask(seam.Committed, 7)
		if _, err := p.Barrier(t.Context()); !errors.Is(err, seam.ErrNoGroup) {
			t.Errorf("a barrier without a replica: %v", err)
		}
		f.reached = false
		if _, err := p.Ask(t.Context(), seam.Now, fsm.QueryGroup{}); !errors.Is(err, seam.ErrNoGroup) {
			t.Errorf("asked of nobody: %v", err)
		}
		for _, err := range p.Pages(t.Context(), seam.Now, fsm.QueryLocks{Exact: true, Name: "x"}) {
			if !errors.Is(err, seam.ErrNoGroup) {
				t.Errorf("pages of nobody: %v", err)
			}
		}
		time.AfterFunc(time.Minute, func() { p.Start(after(9)) })
		ask(seam.Committed, 9)
	})
}
