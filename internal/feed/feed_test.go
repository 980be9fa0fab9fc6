package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/fsm"
)

func watching(t *testing.T, name string) (*Feed, *Watch) {
	t.Helper()
	f := New(make(chan struct{}), attended)
	w, err := f.Open(t.Context(), name, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return f, w
}

func attended(context.Context, string, bool) func() { return func() {} }

// granted are events of one command each, from index first on.
func granted(first, n uint64) (events []fsm.Event) {
	for i := range n {
		events = append(events, fsm.Event{Kind: fsm.EventGranted, Index: first + i, Name: "x", Token: first + i})
	}
	return events
}

// A consumer that never reads must not cost the node more than was said, and it must hear of the
// last event that it missed: what it reads anew is not older than that.
func TestAWatchKeepsSoMuchAndNoMoreAndTellsTheLastThatItMissed(t *testing.T) {
	t.Parallel()
	f, w := watching(t, "x")
	for i := range uint64(10) {
		f.Publish(granted(1+i*1000, 1000))
	}
	events, missed, err := w.Next(t.Context())
	if err != nil || len(events) != EventsMax || missed != 10_000 {
		t.Fatalf("%d events wait, missed up to %d, %v", len(events), missed, err)
	}
	f.Publish(granted(10_001, 1))
	events, missed, err = w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Index != 10_001 || missed != 0 {
		t.Errorf("afterwards %v, missed %d, %v", events, missed, err)
	}
}

// A node that lags far behind gets the state as a whole: no event tells what changed in it.
func TestAStateThatComesAsAWholeIsToldToThoseWhoWatch(t *testing.T) {
	t.Parallel()
	f, w := watching(t, "x")
	f.Publish(granted(1, 1))
	f.Skipped(7)
	f.Publish(granted(8, 1)) // comes before anybody has read: it is in what is read anew
	events, missed, err := w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Index != 1 || missed != 8 {
		t.Errorf("%v, missed up to %d, %v", events, missed, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.Next(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A watch whose caller has gone away must not take the place of another (F3, F4).
func TestAFeedServesSoManyWatchesAndForgetsThoseWhoseContextHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(make(chan struct{}), attended)
		ctx, cancel := context.WithCancel(t.Context())
		for range WatchesMax {
			if _, err := f.Open(ctx, "x", true); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Open(t.Context(), "x", true); !errors.Is(err, ErrFull) {
			t.Errorf("one more: %v", err)
		}
		cancel()
		synctest.Wait()
		w, err := f.Open(t.Context(), "x", true)
		if err != nil || len(f.watches) != 1 || f.count.Load() != 1 {
			t.Errorf("after their end %d watches are open, %v", len(f.watches), err)
		}
		w.Close()
		w.Close()
		if len(f.watches) != 0 || f.count.Load() != 0 {
			t.Errorf("after its end %d watches are open, %d count", len(f.watches), f.count.Load())
		}
	})
}

// A watcher that waits for the next event of a node that was closed would wait for ever.
func TestTheEndOfAFeedEndsTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		f := New(closed, attended)
		w, err := f.Open(t.Context(), "x", true)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ended := make(chan error, 1)
		go func() {
			_, _, err := w.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		close(closed)
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAWatchIsToldOfItsLocksAlone(t *testing.T) {
	t.Parallel()
	f := New(make(chan struct{}), attended)
	told := func(name string, exact bool) *Watch {
		w, err := f.Open(t.Context(), name, exact)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}
	one, some := told("x", true), told("x", false)
	for i, name := range []string{"x", "xy", "y", fsm.OnceName("x"), "x"} {
		kind := fsm.EventGranted
		if i == 4 {
			kind = fsm.EventResting
		}
		f.Publish([]fsm.Event{{Kind: kind, Index: uint64(i + 1), Name: name}})
	}
	for _, c := range []struct {
		w    *Watch
		want int
	}{{one, 1}, {some, 2}} {
		if events, _, err := c.w.Next(t.Context()); err != nil || len(events) != c.want {
			t.Errorf("told %v, %v", events, err)
		}
	}
}

// The place of a watch was free before the group had heard of its end. A client's next watch was one too many for its
// replica, which ended the connection.
func TestAWatchTakesNoPlaceThatTheGroupStillKeeps(t *testing.T) {
	t.Parallel()
	attended := 0
	var f *Feed
	f = New(make(chan struct{}), func(context.Context, string, bool) func() {
		attended++
		return func() {
			if w, err := f.Open(context.Background(), "early", true); err == nil {
				t.Errorf("a watch began while %d are attended: %v", attended, w.name)
			}
			attended--
		}
	})
	var last *Watch
	for range WatchesMax {
		var err error
		if last, err = f.Open(context.Background(), "x", true); err != nil {
			t.Fatal(err)
		}
	}
	last.Close()
	if _, err := f.Open(context.Background(), "x", true); err != nil || attended != WatchesMax {
		t.Errorf("after the end %d are attended: %v", attended, err)
	}
}
