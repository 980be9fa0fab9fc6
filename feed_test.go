package holdfast

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fsm"
)

func watching(t *testing.T, name string) (*feed, *watch) {
	t.Helper()
	f := newFeed(make(chan struct{}), func() error { return ErrClosed })
	w, err := f.open(t.Context(), name, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return f, w
}

// granted are events of one command each, from index first on.
func granted(first, n uint64) (events []fsm.Event) {
	for i := range n {
		events = append(events, fsm.Event{Kind: fsm.EventGranted, Index: first + i, Name: "x", Token: first + i})
	}
	return events
}

// A consumer that never reads must not cost the node more than was said, and it must hear of the last event that
// it missed: what it reads anew is not older than that.
func TestAWatchKeepsSoMuchAndNoMoreAndTellsTheLastThatItMissed(t *testing.T) {
	t.Parallel()
	f, w := watching(t, "x")
	for i := range uint64(10) {
		f.publish(granted(1+i*1000, 1000))
	}
	events, missed, err := w.next(t.Context())
	if err != nil || len(events) != watchEventsMax || missed != 10_000 {
		t.Fatalf("%d events wait, missed up to %d, %v", len(events), missed, err)
	}
	f.publish(granted(10_001, 1))
	events, missed, err = w.next(t.Context())
	if err != nil || len(events) != 1 || events[0].Index != 10_001 || missed != 0 {
		t.Errorf("afterwards %v, missed %d, %v", events, missed, err)
	}
}

// A node that lags far behind gets the state as a whole: no event tells what changed in it.
func TestAStateThatComesAsAWholeIsToldToThoseWhoWatch(t *testing.T) {
	t.Parallel()
	f, w := watching(t, "x")
	f.publish(granted(1, 1))
	f.skipped(7)
	f.publish(granted(8, 1)) // comes before anybody has read: it is in what is read anew
	events, missed, err := w.next(t.Context())
	if err != nil || len(events) != 1 || events[0].Index != 1 || missed != 8 {
		t.Errorf("%v, missed up to %d, %v", events, missed, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.next(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
