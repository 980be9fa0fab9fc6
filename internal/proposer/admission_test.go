package proposer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/seam"
)

// group is what a node proposes to, in the simplest way: it answers so many a second, one after the
// other, and what nobody waits for any more takes it as long as the rest.
type group struct {
	*Admission
	pace time.Duration // for each answer

	mu    sync.Mutex
	free  time.Time // when it has answered all that it was asked
	under int
	most  int // under way at a time
}

func newGroup(pace time.Duration) *group {
	return &group{Admission: newAdmission(100 * time.Millisecond), pace: pace}
}

// ask is a call's way: its turn, and the answer, or the end of its patience.
func (g *group) ask(ctx context.Context) error {
	if err := g.enter(ctx, nil); err != nil {
		return err
	}
	began := time.Now()
	g.mu.Lock()
	if g.free.Before(began) {
		g.free = began
	}
	g.free = g.free.Add(g.pace)
	answer := time.NewTimer(time.Until(g.free))
	g.under++
	g.most = max(g.most, g.under)
	g.mu.Unlock()
	defer answer.Stop()
	var err error
	select {
	case <-answer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	g.under--
	g.mu.Unlock()
	g.leave(began, err == nil)
	return err
}

// stall keeps the group from answering for a while.
func (g *group) stall(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = time.Now().Add(d)
}

// outcome is what became of many calls.
type outcome struct {
	mu              sync.Mutex
	served, refused []time.Duration // how long it took
	late            int             // let in, and in vain, or told that there is no quorum
}

func (o *outcome) note(began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	took := time.Since(began)
	switch {
	case err == nil:
		o.served = append(o.served, took)
	case errors.As(err, new(*seam.OverloadError)):
		o.refused = append(o.refused, took)
	default:
		o.late++
	}
}

func quantile(list []time.Duration, q float64) time.Duration {
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

// load makes a call every gap for a while, and waits for all of them.
func (g *group) load(gap, d, deadline time.Duration) *outcome {
	var all sync.WaitGroup
	o := &outcome{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(gap) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			began := time.Now()
			o.note(began, g.ask(ctx))
		})
	}
	all.Wait()
	return o
}

func TestTenTimesTheLoadIsServedAsWellAsTheLoad(t *testing.T) {
	t.Parallel()
	for _, story := range []struct{ pace, deadline time.Duration }{
		{200 * time.Microsecond, 50 * time.Millisecond},
		{200 * time.Microsecond, time.Second},
		{time.Millisecond, 250 * time.Millisecond},
		{5 * time.Millisecond, time.Second},
	} {
		t.Run(fmt.Sprint(story.pace, " each within ", story.deadline), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { flooded(t, story.pace, story.deadline) })
		})
	}
}

func flooded(t *testing.T, pace, deadline time.Duration) {
	t.Helper()
	const d = 2 * time.Second
	g := newGroup(pace)
	calm := g.load(pace*10/9, d, deadline)
	flood := g.load(pace/10, d, deadline)
	after := g.load(pace*10/9, d, deadline)
	t.Logf("calm: %d served; flood: %d served in %v, p99 %v, %d too late, %d refused in %v, p99 %v; after: %d served, %d not",
		len(calm.served), len(flood.served), quantile(flood.served, 0.5), quantile(flood.served, 0.99), flood.late, len(flood.refused),
		quantile(flood.refused, 0.5), quantile(flood.refused, 0.99), len(after.served), len(after.refused)+after.late)
	if served, able := len(flood.served), int((d+deadline)/pace); served < able*8/10 {
		t.Errorf("%d served under ten times the load, %d could be", served, able)
	}
	if late := flood.late; late > len(flood.served)/10 {
		t.Errorf("%d were let in and had their answers too late, %d in time", late, len(flood.served))
	}
	if slow := quantile(flood.refused, 0.5); slow > 0 {
		t.Errorf("refused after %v", slow)
	}
	if bad := len(after.refused) + after.late; bad > len(after.served)/50 {
		t.Errorf("after the load %d were not served, %d were", bad, len(after.served))
	}
}

func TestWhileTheGroupIsOutOfReachAFewTryAndTheOthersAreToldSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(time.Millisecond)
		g.load(2*time.Millisecond, 5*time.Second, time.Second)
		g.stall(10 * time.Second)
		g.load(time.Second, 2*time.Second, 500*time.Millisecond) // long enough to be silent
		g.most = 0
		out := g.load(time.Millisecond, 5*time.Second, 500*time.Millisecond)
		if g.most > proposalsMin {
			t.Errorf("%d at a time tried a group that does not answer", g.most)
		}
		if len(out.refused) > 0 { // it is not their number that stands in the way
			t.Errorf("%d were told that the node is overloaded", len(out.refused))
		}
		g.stall(0)
		if out := g.load(2*time.Millisecond, time.Second, 500*time.Millisecond); len(out.served) < 450 {
			t.Errorf("when it answers again, only %d were served", len(out.served))
		}
	})
}

// The answers to calls that waited while the group was out of reach took as long as that. New calls
// were refused at that moment, and the oldest ones, too, though the group was as quick as ever.
func TestHowLongTheGroupWasOutOfReachIsNotHowLongACallTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(time.Millisecond)
		var all sync.WaitGroup
		call := func(patience time.Duration) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := g.ask(ctx); err != nil {
					t.Errorf("with a patience of %v: %v", patience, err)
				}
			})
		}
		call(time.Second)
		all.Wait()
		g.stall(10 * time.Second)
		for range 40 {
			call(15 * time.Second)
		}
		time.Sleep(10*time.Second + 8*time.Millisecond)
		for range 20 {
			call(500 * time.Millisecond)
		}
		all.Wait()
	})
}

func TestCallsWithoutADeadlineAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(time.Millisecond)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 5000 {
			all.Go(func() {
				if err := g.ask(context.Background()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		all.Wait()
		for place, i := range order {
			if off := place - i; off > CallsMax || off < -CallsMax {
				t.Fatalf("call %d was served as number %d", i, place)
			}
		}
	})
}

func TestABurstAfterAQuietTimeIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(200 * time.Microsecond)
		for _, quiet := range []time.Duration{time.Minute, 0, silence / 2, 2 * silence, time.Hour} {
			time.Sleep(quiet)
			var all sync.WaitGroup
			for range 2000 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					if err := g.ask(ctx); err != nil {
						t.Errorf("after %v: %v", quiet, err)
					}
				})
			}
			all.Wait()
		}
	})
}

func TestACallThatGivesUpTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(time.Second)
		for range proposalsMin {
			if err := a.enter(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		closing := make(chan struct{})
		ended := make(chan error, 3)
		go func() { ended <- a.enter(ctx, nil) }()
		go func() { ended <- a.enter(context.Background(), closing) }()
		synctest.Wait()
		cancel()
		close(closing)
		synctest.Wait()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, seam.ErrClosed) {
				t.Errorf("a call that gave up was told %v", err)
			}
		}
		go func() { ended <- a.enter(context.Background(), nil) }()
		synctest.Wait()
		a.leave(time.Now(), false)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		drained := make(chan struct{})
		go func() { a.drain(context.Background()); close(drained) }()
		for range proposalsMin {
			synctest.Wait()
			select {
			case <-drained:
				t.Fatal("drained while a call is under way")
			default:
			}
			a.leave(time.Now(), true)
		}
		<-drained
	})
}

// A caller may give up in the moment in which it is let in.
func TestACallThatIsLetInAndLeavesAtOnceGivesItsPlaceToTheNext(t *testing.T) {
	t.Parallel()
	a, now := newAdmission(time.Second), time.Now()
	for range proposalsMin {
		if err := a.enter(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	first, second := &turn{decided: make(chan bool, 1)}, &turn{decided: make(chan bool, 1)}
	place := a.queue.PushBack(first)
	a.queue.PushBack(second)
	a.leave(now, false)
	if len(first.decided) != 1 || len(second.decided) != 0 {
		t.Fatal("not the first alone was let in")
	}
	a.leaveQueue(place)
	if len(second.decided) != 1 || a.under != proposalsMin {
		t.Errorf("the place of a call that left is not free: %d under way", a.under)
	}
}

func TestANodeKeepsSoManyCallsWaitingAndNoMore(t *testing.T) {
	t.Parallel()
	a := newAdmission(1)
	for range proposalsMin {
		if err := a.enter(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range turnsMax {
		a.queue.PushBack(&turn{decided: make(chan bool, 1)})
	}
	if err := a.enter(context.Background(), nil); !errors.As(err, new(*seam.OverloadError)) {
		t.Errorf("call %d: %v", turnsMax+1, err)
	}
}
