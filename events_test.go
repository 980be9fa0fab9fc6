package holdfast

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
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
