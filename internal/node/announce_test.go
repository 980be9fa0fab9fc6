package node

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/forming"
)

// 300 nodes that started at once on a busy machine were not ready after eight minutes: each of them announced
// itself each second, and exchanged all news with two others, whether the calls of the second before had come to
// an end or not.
func TestANodeThatIsNotHeardAnnouncesItselfMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	var r rounds
	began := time.Unix(1000, 0)
	r.begin(began, 0)
	count, last, longest := 0, began, time.Duration(0)
	for now := began; now.Before(began.Add(5 * time.Minute)); now = now.Add(10 * time.Millisecond) {
		if busy := now.Sub(began) > 100*time.Second && now.Sub(began) < 160*time.Second; !r.due(now, busy) {
			continue
		} else if busy {
			t.Fatalf("a round begins after %v, beside another", now.Sub(began))
		}
		if count++; count <= 3 && now.Sub(last) > time.Duration(count)*announcePause*5/4 {
			t.Errorf("round %d begins %v after the one before", count, now.Sub(last))
		}
		if now.Sub(began) < 100*time.Second {
			longest = max(longest, now.Sub(last))
		}
		last = now
	}
	if count < 30 || count > 70 || longest > announceRare*5/4+10*time.Millisecond {
		t.Errorf("%d rounds in 4 minutes, with pauses up to %v", count, longest)
	}
	if r.long(began.Add(exchangeAfter-1)) || !r.long(began.Add(exchangeAfter)) {
		t.Error("it exchanges all news at another time than after exchangeAfter")
	}
}

// The raft leader of 300 nodes that started at once sent each of them its word twenty times a second, over a
// connection of its own, until gossip had brought the answer.
func TestAWordIsSentOnceAtATimeAndRepeatedUntilItIsWantedNoMore(t *testing.T) {
	t.Parallel()
	var w words
	now := time.Unix(1000, 0)
	a, b := forming.Message{Kind: forming.Client, To: "a"}, forming.Message{Kind: forming.Client, To: "b"}
	sends := func(at time.Duration, want int, wanted ...forming.Message) {
		t.Helper()
		if due := w.due(wanted, now.Add(at)); len(due) != want {
			t.Errorf("after %v: sends %v", at, due)
		}
	}
	sends(0, 2, a, b)
	sends(time.Minute, 0, a, b) // both are under way
	w.done(a, nil, now.Add(time.Minute))
	w.done(b, errors.New("too many are being sent"), now.Add(time.Minute))
	sends(time.Minute+wordPause/2, 1, a, b) // b
	sends(time.Minute+wordPause, 1, a, b)   // a
	sends(time.Minute+wordPause, 0, b)
	w.done(a, nil, now) // a is wanted no more
	sends(2*time.Minute, 1, a, b)
	if len(w.sent) != 2 {
		t.Errorf("it remembers %d words", len(w.sent))
	}
}
