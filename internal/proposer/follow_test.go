package proposer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
)

// follower notes what it is told: numbers of commands, and gaps.
type follower struct{ told []string }

func (f *follower) Applied(events []fsm.Event) {
	for _, e := range events {
		f.told = append(f.told, fmt.Sprint(e.Index))
	}
}

func (f *follower) Gap(last uint64, ask func(fsm.Question) (fsm.Answer, error)) {
	answer, err := ask(fsm.QueryGroup{})
	f.told = append(f.told, fmt.Sprintf("gap to %d of %d %v", last, answer.State(), err))
}

func (f *follower) Ages(iter.Seq2[uint64, time.Duration]) { f.told = append(f.told, "ages") }

// after is a replica that has applied n commands.
func after(n int) *replica {
	r := &replica{results: []error{nil}, state: fsm.New()}
	r.apply(n)
	return r
}

func (r *replica) apply(n int) {
	for range n {
		r.state.Apply(r.state.Applied()+1, fsm.Process{}, fsm.Encode(fsm.Serve{}))
	}
}

func events(numbers ...uint64) (list []fsm.Event) {
	for _, n := range numbers {
		list = append(list, fsm.Event{Index: n})
	}
	return list
}

// A keeper that is told of a grant twice would take it twice, and one that is told of no gap would
// wait for what has happened long ago (G4).
func TestAFollowerIsToldOfEachCommandOnceOverAllLivesOfAReplica(t *testing.T) {
	t.Parallel()
	p, f := newProposer(), &follower{}
	p.Follow(2, f)
	first := after(5)
	p.Start(first)
	for _, step := range []struct {
		do   func()
		told []string
	}{
		{func() { p.Applied(events(1, 2, 3)) }, []string{"3"}},
		{func() { p.Applied(events(4, 4, 5)) }, []string{"4", "4", "5"}},
		{func() { p.Retire(); p.Start(after(0)) }, nil},                          // begins empty
		{func() { p.Applied(events(1, 3, 5)); p.Restored(after(4).state) }, nil}, // what the first had applied
		{func() { p.Applied(events(5, 6)) }, []string{"6"}},                      // and goes on
		{func() { p.Restored(after(9).state) }, []string{"gap to 9 of 9 <nil>"}}, // having lagged too far
		{func() { p.GiveUp() }, nil},                                             // the group yields
		{func() { p.Applied(events(10)); p.Restored(after(11).state) }, nil},     // too late
		{func() { p.Start(after(3)) }, []string{"gap to 3 of 3 <nil>"}},          // the other group
		{func() { p.Applied(events(3)); p.Applied(events(4)) }, []string{"4"}},   // with numbers of its own
	} {
		f.told = nil
		if step.do(); !slices.Equal(f.told, step.told) {
			t.Errorf("told %q, want %q", f.told, step.told)
		}
	}
}

// What a call reads must not be older than what its node has been told of, and a linearizable read
// not older than the call (G3).
// A node may hang on another's replica before it has one, while that catches up, and after it is
// removed: whichever tells more goes on.
func TestAFollowerIsToldOfEachCommandOnceByReplicasNearAndFar(t *testing.T) {
	t.Parallel()
	p, f := newProposer(), &follower{}
	p.Follow(0, f)
	state := after(9).state
	ask := func(q fsm.Question) (fsm.Answer, error) { return state.Answer(q), nil }
	for _, step := range []struct {
		do   func()
		told []string
	}{
		{func() { p.Gap(3, ask); p.Applied(events(4)) }, []string{"gap to 3 of 9 <nil>", "4"}}, // far
		{func() { p.AppliedHere(events(1, 2, 3, 4, 5)); p.Restored(after(5).state) }, nil},     // near, not open yet
		{func() { p.Applied(events(5, 6)); p.Gap(5, ask); p.Applied(events(6)) }, []string{"5", "6"}},
		{func() { p.Gap(6, ask) }, []string{"gap to 6 of 9 <nil>"}}, // a watch has missed some
		{func() { p.Start(after(6)); p.AppliedHere(events(6, 7)); p.Retire() }, []string{"gap to 6 of 6 <nil>", "7"}},
		{func() { p.AppliedHere(events(8)) }, nil}, // it was removed
		{func() { p.Applied(events(8)) }, []string{"8"}},
		{func() { p.GiveUp(); p.Applied(events(9)) }, nil},                                     // the group yields
		{func() { p.Gap(2, ask); p.Applied(events(3)) }, []string{"gap to 2 of 9 <nil>", "3"}}, // far, of another group
	} {
		f.told = nil
		if step.do(); !slices.Equal(f.told, step.told) {
			t.Errorf("told %q, want %q", f.told, step.told)
		}
	}
}

// The first replica was gone before it answered, and the next had come less far: its gap was no news, and
// what the first had told the number of was never told.
func TestAGapThatCouldNotBeAskedAboutIsToldByTheNextReplica(t *testing.T) {
	t.Parallel()
	p, f := newProposer(), &follower{}
	p.Follow(0, f)
	p.Applied(events(1, 2, 3))
	state := after(8).state
	p.Gap(9, func(q fsm.Question) (fsm.Answer, error) { return state.Answer(q), errors.New("lost") })
	f.told = nil
	p.Gap(8, func(q fsm.Question) (fsm.Answer, error) { return state.Answer(q), nil })
	p.Applied(events(9))
	if want := []string{"gap to 8 of 8 <nil>", "9"}; !slices.Equal(f.told, want) {
		t.Errorf("told %q, want %q", f.told, want)
	}
}

// A replica that began while its node hung on another's, which did not answer, waited for it with all
// that it had to apply: two of sixteen seeds of sim/virtual stood still.
func TestAReplicaWaitsForNoAnswerOfAnotherBeforeItApplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f := newProposer(), &follower{}
		p.Follow(0, f)
		lost := make(chan struct{})
		go p.Gap(3, func(q fsm.Question) (fsm.Answer, error) {
			<-lost
			return after(0).state.Answer(q), errors.New("lost")
		})
		synctest.Wait()
		p.AppliedHere(events(1, 2, 3, 4))
		p.Restored(after(5).state)
		if told := p.Told(); told != 3 {
			t.Errorf("told of %d", told)
		}
		close(lost)
		synctest.Wait()
		f.told = nil // the answer that did not come
		p.Start(after(5))
		if want := []string{"gap to 5 of 5 <nil>"}; !slices.Equal(f.told, want) {
			t.Errorf("told %q, want %q: what it has applied, and what the other did not answer", f.told, want)
		}
	})
}

func TestAQuestionIsAnsweredNowOrAfterABarrier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, ctx := newProposer(), t.Context()
		if _, err := p.Ask(ctx, seam.Now, fsm.QueryGroup{}); !errors.Is(err, seam.ErrNoGroup) {
			t.Errorf("without a group: %v", err)
		}
		r := after(2)
		time.AfterFunc(time.Minute, func() { p.Start(r) })
		if a, err := p.Ask(ctx, seam.Committed, fsm.QueryGroup{}); err != nil || a.State() != 2 || len(r.asked) != 1 {
			t.Errorf("%v, %v after %d barriers", a, err, len(r.asked))
		}
		if a, err := p.Ask(ctx, seam.Now, fsm.QueryGroup{}); err != nil || a.State() != 2 || len(r.asked) != 1 {
			t.Errorf("%v, %v after %d barriers: what is known here needs none", a, err, len(r.asked))
		}
		p.Retire()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := p.Ask(ctx, seam.Committed, fsm.QueryGroup{}); !errors.As(err, new(*seam.UnreachedError)) {
			t.Errorf("between two replicas: %v", err)
		}
	})
}

// Pages of several states would show a lock twice, or not at all.
func TestPagesAreOfOneStateAndEndWithTheirContext(t *testing.T) {
	t.Parallel()
	p := newProposer()
	q := fsm.QueryLocks{Parts: fsm.PartWaiters}
	for _, err := range p.Pages(t.Context(), seam.Now, q) {
		if !errors.Is(err, seam.ErrNoGroup) {
			t.Errorf("without a group: %v", err)
		}
	}
	r := after(0)
	r.crowd(2000)
	p.Start(r)
	before, locks, pages := r.state.Commands(), 0, 0
	for page, err := range p.Pages(t.Context(), seam.Now, q) {
		if err != nil || page.At != before {
			t.Fatalf("a page of state %d, want %d: %v", page.At, before, err)
		}
		locks, pages = locks+len(page.Locks), pages+1
		r.apply(1)
	}
	if locks != 2000 || pages < 2 {
		t.Errorf("%d locks on %d pages", locks, pages)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range p.Pages(ctx, seam.Now, q) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a list whose context ended ends with %v", last)
	}
}

// crowd lets a process hold n locks.
func (r *replica) crowd(n int) {
	p := fsm.Process{Node: fsm.Node{1}, Incarnation: 1}
	apply := func(cmd fsm.Command) {
		if out, _ := r.state.Apply(r.state.Applied()+1, p, fsm.Encode(cmd)); out.Code != fsm.CodeOK && out.Code != fsm.CodeGranted {
			panic(out.Code)
		}
	}
	apply(fsm.Birth{Cluster: [16]byte{1}})
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: p.Node, Incarnation: p.Incarnation})
	for i := range n {
		apply(fsm.Acquire{Session: fsm.SessionID{Node: p.Node, Incarnation: p.Incarnation, Number: 1}, TTL: time.Minute, Request: uint64(i + 1), Name: fmt.Sprint(i)})
	}
}
