package health

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// node is polled in virtual time.
type node struct {
	*Monitor
	now lease.Instant
}

// runs polls for a while; signs are those at each time since it began.
func (n *node) runs(d time.Duration, signs func(time.Duration) Signs) (words string, ill bool) {
	for begin := n.now; n.now.Sub(begin) < d; {
		n.now = n.now.Add(n.Pause())
		illness, is := n.Poll(n.now, signs(n.now.Sub(begin)))
		words, ill = illness.String(), is
	}
	return words, ill
}

func newNode() *node { return &node{Monitor: New(time.Second), now: lease.Instant(time.Hour)} }

func well(time.Duration) Signs { return Signs{Leader: 7} }

func TestANodeIsIllAfterTheTimeAndSaysOfWhat(t *testing.T) {
	t.Parallel()
	for words, signs := range map[string]func(time.Duration) Signs{
		"the disk has not finished a write for 3 s": func(d time.Duration) Signs { return Signs{Leader: 7, Writing: d} },
		"no answer from the raft leader for 3 s":    func(d time.Duration) Signs { return Signs{Leader: 7, Unanswered: d} },
		"no answer from the other voters for 3 s":   func(d time.Duration) Signs { return Signs{Leader: 7, Leads: true, Unanswered: d} },
		"this raft leader has committed nothing for 3 s": func(time.Duration) Signs {
			return Signs{Leader: 7, Leads: true, Last: 9, Committed: 8}
		},
	} {
		n := newNode()
		n.runs(10*time.Second, well)
		if said, ill := n.runs(800*time.Millisecond, signs); ill {
			t.Errorf("ill after 0.8 s: %s", said)
		}
		n = newNode()
		n.runs(10*time.Second, well)
		if said, ill := n.runs(3300*time.Millisecond, signs); !ill || said != words {
			t.Errorf("%v: %q, not %q", ill, said, words)
		}
		if _, ill := n.runs(800*time.Millisecond, well); !ill {
			t.Error("well again after 0.8 s")
		}
		if said, ill := n.runs(600*time.Millisecond, well); ill || said != "" {
			t.Errorf("still ill after 1.4 s: %q", said)
		}
	}
}

func TestProgressIsNoIllness(t *testing.T) {
	t.Parallel()
	for name, signs := range map[string]func(time.Duration) Signs{
		"answers come":              func(d time.Duration) Signs { return Signs{Leader: 7, Unanswered: d % (900 * time.Millisecond)} },
		"entries commit":            func(d time.Duration) Signs { return Signs{Leader: 7, Leads: true, Last: 1 << 40, Committed: uint64(d)} },
		"a follower's log grows":    func(time.Duration) Signs { return Signs{Leader: 7, Last: 9, Committed: 8} },
		"there is no leader":        func(d time.Duration) Signs { return Signs{Unanswered: d} },
		"leaders follow each other": func(d time.Duration) Signs { return Signs{Leader: 1 + uint64(d/(800*time.Millisecond)), Unanswered: d} },
	} {
		if words, ill := newNode().runs(time.Minute, signs); ill {
			t.Errorf("%s: %s", name, words)
		}
	}
}

// A process that was stopped for a minute finds all that it has waited for a minute old.
func TestAProcessThatDidNotRunIsNotIll(t *testing.T) {
	t.Parallel()
	n := newNode()
	n.runs(10*time.Second, well)
	n.now = n.now.Add(time.Minute) // SIGSTOP, a suspended machine
	old := func(d time.Duration) Signs {
		return Signs{Leader: 7, Unanswered: time.Minute + d, Writing: time.Minute + d}
	}
	if words, ill := n.runs(time.Second, old); ill {
		t.Errorf("ill as soon as it was thawed: %s", words)
	}
	for range 100 { // it starves: each second has one poll that comes late
		n.now = n.now.Add(500 * time.Millisecond)
		if words, ill := n.runs(600*time.Millisecond, old); ill {
			t.Fatalf("a starved node is ill: %s", words)
		}
	}
	if _, ill := n.runs(1200*time.Millisecond, old); !ill {
		t.Error("not ill although it has run for long enough")
	}
	n.now = n.now.Add(time.Minute)
	if _, ill := n.Poll(n.now, well(0)); !ill {
		t.Error("a pause has cured it")
	}
}

// Heartbeats come through now and then, and answers never.
func TestAFollowerThatLosesSightOfItsRaftLeaderNowAndThenIsIll(t *testing.T) {
	t.Parallel()
	n := newNode()
	n.runs(10*time.Second, well)
	if _, ill := n.runs(4*time.Second, func(d time.Duration) Signs {
		return Signs{Leader: 7 * uint64(d/(600*time.Millisecond)%2), Unanswered: d}
	}); !ill {
		t.Error("not ill after four seconds without an answer")
	}
}

// An ill node that has lost its raft leader, or that has been given no answer, is not well.
func TestAnIllNodeIsWellOnlyWhenItIsAnswered(t *testing.T) {
	t.Parallel()
	n := newNode()
	n.runs(5*time.Second, func(d time.Duration) Signs { return Signs{Leader: 7, Unanswered: d} })
	if _, ill := n.runs(10*time.Second, func(d time.Duration) Signs { return Signs{Unanswered: d} }); !ill {
		t.Error("well again without a raft leader")
	}
	if _, ill := n.runs(900*time.Millisecond, func(d time.Duration) Signs { return Signs{Leader: 7, Unanswered: time.Minute} }); !ill {
		t.Error("well again without an answer")
	}
	if _, ill := n.runs(1400*time.Millisecond, well); ill {
		t.Error("still ill")
	}
}

func TestTwentyChangesOfTheRaftLeaderInFortySecondsAreOneReport(t *testing.T) {
	t.Parallel()
	for gap, want := range map[time.Duration]int{2 * time.Second: 1, 5 * time.Second: 0, time.Minute: 0} {
		var turnover Turnover
		now, reports := lease.Instant(time.Hour), 0
		for term := uint64(57); term <= 77; term++ {
			now = now.Add(gap)
			for range 3 { // polls
				if turnover.Note(now, term) {
					reports++
				}
			}
		}
		if reports != want {
			t.Errorf("a change each %v: %d reports", gap, reports)
		}
	}
}
