package holdfast

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A node with many leases ends all of them when it fails, which is news for more hooks than may
// wait.
func TestTheFailureOfTheNodeIsToldLastWhateverWasDropped(t *testing.T) {
	t.Parallel()
	var told []string
	h := newHooks(Events{
		Foreign: func(id string, _ []string) { told = append(told, id) },
		Failed:  func(error) { told = append(told, "failed") },
	}, slog.New(slog.DiscardHandler))
	for range 2 * hooksQueued {
		h.foreign("news", nil)
	}
	h.end(errors.New("disk"))
	h.foreign("too late", nil)
	h.start()
	<-h.ended
	if len(told) != hooksQueued+1 || told[hooksQueued] != "failed" || h.dropped.Load() != hooksQueued {
		t.Errorf("told %d, the last %q; %d dropped", len(told), told[len(told)-1], h.dropped.Load())
	}
}

// Close waits a second for hooks. Those behind were called for half a minute more, on what the program
// had closed.
func TestNoHookBeginsAfterTheNodeHasClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		log := slog.New(slog.DiscardHandler)
		l := listener{&Cluster{log: log, hooks: newHooks(Events{
			Foreign: func(string, []string) { begun.Add(1); time.Sleep(50 * time.Millisecond) },
		}, log)}}
		for range 200 {
			l.Foreign("news", nil)
		}
		l.c.hooks.start()
		l.Stopping(nil)
		l.Stopped()
		closed := begun.Load()
		<-l.c.hooks.ended
		if late := begun.Load() - closed; late > 0 {
			t.Errorf("%d hooks begin after the end", late)
		}
	})
}

// A node that grants and refuses at full speed must not miss that a lease was lost.
func TestCallsDoNotCrowdOutNews(t *testing.T) {
	t.Parallel()
	var told []string
	h := newHooks(Events{
		Refused:    func(string, error, time.Duration) { told = append(told, "refused") },
		RaftLeader: func(node string) { told = append(told, node) },
	}, slog.New(slog.DiscardHandler))
	for range 2 * hooksQueued {
		h.refused("lock", ErrHeld, 0)
	}
	for _, node := range []string{"a", "a", "b", "b", "", "", "b"} { // an election without a result is told as well
		h.raftLeader(node)
	}
	h.end(nil)
	h.start()
	<-h.ended
	if !slices.Equal(told[:4], []string{"a", "b", "", "b"}) || len(told) != hooksQueued+4 || h.dropped.Load() != hooksQueued {
		t.Errorf("told %d, first %q; %d dropped", len(told), told[:4], h.dropped.Load())
	}
}

// Each wake-up of the goroutine that calls the hooks is paid by a caller.
func TestCallsThatFollowEachOtherAreToldTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		h := newHooks(Events{Refused: func(string, error, time.Duration) { told.Add(1) }}, slog.New(slog.DiscardHandler))
		h.start()
		synctest.Wait() // it waits for the first
		for _, step := range []struct {
			what        string
			after       time.Duration
			calls, told int64
		}{
			{"the first", 0, 1, 1},
			{"some that follow", hooksLull / 2, 3, 1},
			{"one more", hooksLull/2 - 1, 1, 1},
			{"all that came in a lull", 1, 0, 5},
			{"many", 0, hooksMany, 5 + hooksMany},
			{"the first after a lull without any", 2 * hooksLull, 1, 6 + hooksMany},
		} {
			time.Sleep(step.after)
			for range step.calls {
				h.refused("lock", ErrHeld, 0)
			}
			synctest.Wait()
			if told := told.Load(); told != step.told {
				t.Errorf("%s: %d are told, want %d", step.what, told, step.told)
			}
		}
		h.refused("lock", ErrHeld, 0)
		h.end(nil)
		<-h.ended
		if told := told.Load(); told != 7+hooksMany || h.dropped.Load() != 0 {
			t.Errorf("at the end %d are told and %d dropped", told, h.dropped.Load())
		}
	})
}
