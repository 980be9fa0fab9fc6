package proposer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/consensus/report"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// replica answers each attempt with the next of its results, and then for ever with the last.
type replica struct {
	results []error // nil: an outcome
	code    fsm.Code
	asked   []time.Time
	takes   time.Duration
	state   *fsm.Machine
}

func (r *replica) answer(ctx context.Context) error {
	r.asked = append(r.asked, time.Now())
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return report.ErrUnknown
	}
	err := r.results[0]
	if len(r.results) > 1 {
		r.results = r.results[1:]
	}
	return err
}

func (r *replica) Propose(ctx context.Context, _ []byte) (fsm.Outcome, error) {
	return fsm.Outcome{Code: r.code}, r.answer(ctx)
}

func (r *replica) Answer(q fsm.Question) fsm.Answer { return r.state.Answer(q) }

func (r *replica) Fork() *fsm.Machine { return r.state.Fork() }

func (r *replica) Barrier(ctx context.Context) error { return r.answer(ctx) }

func newProposer() *Proposer[*replica] {
	return New(time.Second, make(chan struct{}), func(*replica) {})
}

// holding brings the command of a holder to the group.
func holding(ctx context.Context, p *Proposer[*replica], cmd fsm.Command) (out fsm.Outcome, unknown bool, err error) {
	if err := p.Enter(ctx, seam.Holding); err != nil {
		return fsm.Outcome{}, false, err
	}
	return p.Propose(ctx, seam.Holding, fsm.Encode(cmd))
}

// A caller that is told less than the truth either takes a lock twice or takes it for free (P2).
func TestACommandIsRepeatedUntilItsOutcomeIsKnownAndItsErrorSaysWhetherItMayHaveBeenCarriedOut(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is broken")
	for _, c := range []struct {
		results  []error
		attempts int
		unknown  bool
		err      error
	}{
		{[]error{nil}, 1, false, nil},
		{[]error{report.ErrNotProposed, report.ErrNotProposed, nil}, 3, false, nil},
		{[]error{report.ErrNotProposed, report.ErrUnknown, nil}, 3, true, nil},
		{[]error{report.ErrRemoved, nil}, 2, false, nil},
		{[]error{broken}, 1, false, broken},
		{[]error{report.ErrUnknown, broken}, 2, true, broken},
		{[]error{report.ErrClosed}, 1, false, seam.ErrClosed},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, r := newProposer(), &replica{results: c.results}
			p.Start(r)
			_, unknown, err := p.Insist(t.Context(), []byte("command"))
			if !errors.Is(err, c.err) || unknown != c.unknown || errors.As(err, new(*seam.UnknownError)) != (c.unknown && err != nil) || len(r.asked) != c.attempts {
				t.Errorf("%v: after %d attempts %v, unknown %v", c.results, len(r.asked), err, unknown)
			}
		})
	}
}

func TestTheEndOfAContextOrOfTheNodeEndsACommandAtOnce(t *testing.T) {
	t.Parallel()
	for name, results := range map[string][]error{"reached": {report.ErrUnknown}, "not reached": {report.ErrNotProposed}} {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			p, r := New(time.Second, closed, func(*replica) {}), &replica{results: results, takes: time.Second}
			p.Start(r)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			_, unknown, err := holding(ctx, p, fsm.Serve{})
			if !errors.As(err, new(*seam.UnreachedError)) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			if _, ok := errors.AsType[*seam.UnknownError](err); ok != unknown || !unknown && name == "reached" {
				t.Errorf("%s: %v, unknown %v", name, err, unknown)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := p.Barrier(t.Context())
				ended <- err
			}()
			time.Sleep(time.Minute)
			p.Retire()
			time.Sleep(time.Minute)
			close(closed)
			synctest.Wait()
			if err := <-ended; !errors.Is(err, seam.ErrClosed) {
				t.Errorf("%s: %v after the end of the node", name, err)
			}
		})
	}
}

// Before, a call slept for half a second although a new raft leader was there.
func TestACommandGoesOnAtOnceWhenTheRaftLeaderChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, r := newProposer(), &replica{results: slices.Repeat([]error{report.ErrNotProposed}, 20)}
		p.Start(r)
		go func() { _, _, _ = p.Insist(t.Context(), []byte("command")) }()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		before := len(r.asked)
		p.Wake()
		synctest.Wait()
		if len(r.asked) != before+1 {
			t.Errorf("%d attempts follow the change", len(r.asked)-before)
		}
		r.results = []error{nil}
		p.Wake()
	})
}

// What is under way when the group removes this node's replica goes on at the next replica: the
// group is the same.
func TestACommandUnderWayToAReplicaThatIsOverGoesOnAtTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []*replica
		p := New(time.Second, make(chan struct{}), func(r *replica) { told = append(told, r) })
		first, second := &replica{results: []error{report.ErrRemoved}}, &replica{results: []error{nil}}
		p.Start(first)
		ended := make(chan error, 1)
		go func() {
			_, _, err := p.Insist(t.Context(), []byte("command"))
			ended <- err
		}()
		synctest.Wait()
		p.Retire()
		time.Sleep(time.Minute)
		p.Start(second)
		if err := <-ended; err != nil || len(second.asked) != 1 || len(told) == 0 || told[0] != first {
			t.Errorf("%v after %d attempts at the second replica; told of %v", err, len(second.asked), told)
		}
	})
}

// A command to the group that was given up would open its session again in the next one, where
// nobody would renew or close it: what it takes would stay taken for a TTL (P1).
func TestACommandUnderWayToAGroupThatIsGivenUpNeverGoesToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProposer()
		answer := make(chan error, 1)
		go func() {
			_, _, err := p.Insist(t.Context(), []byte("acquire"))
			answer <- err
		}()
		synctest.Wait()
		p.Wake() // another raft leader
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatalf("it waits no more: %v", <-answer)
		}
		p.GiveUp()
		if err := <-answer; !errors.Is(err, seam.ErrSuperseded) {
			t.Errorf("it was told %v", err)
		}
	})
}

func TestNobodyIsLetThroughBetweenTwoGroups(t *testing.T) {
	t.Parallel()
	p := newProposer()
	p.Greet()
	before, err := p.view.Load(), report.ErrClosed
	p.GiveUp()
	if v := p.view.Load(); v.greeted || v.here || !p.over(before, err) || p.over(v, err) {
		t.Errorf("after a group was given up: %+v", v)
	}
	p.Wake()
	if v := p.view.Load(); v.greeted || !p.over(before, err) {
		t.Errorf("after a change of raft leaders: %+v", v)
	}
}
