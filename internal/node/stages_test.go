package node

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/seam"
)

// A failure that is told as another one, or as a Close, sends an operator to the wrong place.
func TestTheFirstThatEndsANodeIsWhatItsCallsReturn(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk")
	for _, story := range []struct {
		first, second, failure error
	}{
		{disk, seam.ErrEnded, disk},
		{seam.ErrEnded, disk, nil},
	} {
		l := newLifecycle()
		if err := l.Stopped(); err != nil {
			t.Errorf("calls return %v on a node that runs", err)
		}
		if !l.beginClosing(story.first) || l.beginClosing(story.second) {
			t.Error("not the first to close it, and no other, heard so")
		}
		failure, closing := l.Failure()
		if err := l.Stopped(); !closing || failure != story.failure || err != story.first {
			t.Errorf("closed with %v, then %v: closing is %v, the failure %v, calls return %v", story.first, story.second, closing, failure, err)
		}
		if err := l.BeginLeave(); err != story.first || l.leaving() {
			t.Errorf("a node that closes with %v leaves: %v", story.first, err)
		}
		l.stop()
	}
}

// A node leaves once; calls are refused, but what the group must hear of it is still sent.
func TestANodeThatLeavesRefusesCallsAndRunsOn(t *testing.T) {
	t.Parallel()
	l := newLifecycle()
	defer l.stop()
	if err := l.BeginLeave(); err != nil || !l.leaving() {
		t.Fatalf("it leaves: %v, %v", l.leaving(), err)
	}
	if err := l.BeginLeave(); !errors.Is(err, seam.ErrEnded) {
		t.Errorf("the second Leave returns %v", err)
	}
	if err := l.Stopped(); !errors.Is(err, seam.ErrEnded) {
		t.Errorf("calls return %v", err)
	}
	if _, closing := l.Failure(); closing || !l.Go(func(context.Context) {}) {
		t.Error("it does not run on")
	}
	l.running.Wait()
}

// What begins after a node has stopped would outlive it, and work on what was given back.
func TestNothingBeginsOnANodeThatHasStopped(t *testing.T) {
	t.Parallel()
	l := newLifecycle()
	if !l.Go(func(ctx context.Context) { <-ctx.Done() }) {
		t.Fatal("nothing runs")
	}
	l.stop()
	l.running.Wait() // the context has ended
	if l.Go(func(context.Context) {}) || l.unlessStopping(func() { t.Error("it was called") }) {
		t.Error("something began")
	}
}
