package story_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	ms  = time.Millisecond
	ttl = 2 * time.Second
)

// at makes a line of process node that happened from one moment to another.
func at(node int, from, to time.Duration, l story.Line) story.Line {
	l.From, l.To, l.Node, l.Life = from, to, node, 1
	return l
}

func event(node int, from, to time.Duration, e history.Event) story.Line {
	return at(node, from, to, story.Line{Kind: story.KindEvent, Event: &e})
}

func kind(node int, from time.Duration, k story.Kind, text string) story.Line {
	return at(node, from, from, story.Line{Kind: k, Text: text})
}

// status is a node that answers that it serves; the voters are all three.
func status(node int, from, to time.Duration, leader string, ready bool) story.Line {
	return at(node, from, to, story.Line{Kind: story.KindStatus, Status: &story.Status{
		ID: id(node), RaftLeader: leader, Term: 1, Voters: []string{id(0), id(1), id(2)}, Served: ready,
	}})
}

func id(node int) string { return string(rune('a' + node)) }

func fault(number int, from, to time.Duration, name string, nodes ...int) []story.Line {
	f := &story.Fault{ID: number, Name: name, Nodes: nodes}
	return []story.Line{at(-1, from, from, story.Line{Kind: story.KindFault, Fault: f}), at(-1, to, to, story.Line{Kind: story.KindFaultEnd, Fault: f})}
}

func asked(op uint64, until time.Duration) history.Event {
	return history.Event{Kind: history.Asked, Op: op, Lock: "a", Wait: true, Until: until, Weight: 1, Limit: 1}
}

func granted(op, token uint64) history.Event {
	return history.Event{Kind: history.Granted, Op: op, Lock: "a", Token: token}
}

func held(token uint64, remaining time.Duration) history.Event {
	return history.Event{Kind: history.Held, Lock: "a", Token: token, Remaining: remaining}
}

func of(k history.Kind, token uint64) history.Event {
	return history.Event{Kind: k, Lock: "a", Token: token}
}

func ended(token uint64, cause string) history.Event {
	return history.Event{Kind: history.Ended, Lock: "a", Token: token, Cause: cause}
}

// begun is a fleet of three that serves from the first second on.
func begun() []story.Line {
	lines := []story.Line{at(-1, 0, 0, story.Line{Kind: story.KindRun, Run: &story.Run{Seed: 7, Nodes: 3, Voters: 3, TTL: ttl, Duration: time.Minute}})}
	for i := range 3 {
		lines = append(lines, kind(i, 0, story.KindStart, ""), status(i, 900*ms, time.Second, id(0), true))
	}
	return lines
}

// find returns the events of one kind.
func find(h []history.Event, k history.Kind) (all []history.Event) {
	for _, e := range h {
		if e.Kind == k {
			all = append(all, e)
		}
	}
	return all
}

func times(events []history.Event) (all []time.Duration) {
	for _, e := range events {
		all = append(all, e.At)
	}
	return all
}

func TestALeaseIsValidFromAfterTheFirstLookToBeforeTheLast(t *testing.T) {
	t.Parallel()
	// The process was stopped within both looks: between reading the clock and looking, or the
	// other way round.
	h := story.Merge([]story.Line{
		event(0, 1*time.Second, 1*time.Second, asked(1, time.Minute)),
		event(0, 2*time.Second, 3*time.Second, granted(1, 10)),
		event(0, 3*time.Second, 5*time.Second, held(10, 3*time.Second)),
		event(0, 6*time.Second, 9*time.Second, held(10, 5*time.Second)),
	})
	looks := find(h, history.Held)
	if got := times(looks); got[0] != 5*time.Second || got[1] != 6*time.Second {
		t.Errorf("valid from %v to %v: what is not certain would be called a violation", got[0], got[1])
	}
	if looks[1].Remaining != 2*time.Second {
		t.Errorf("%v remained: the look itself took 3 s", looks[1].Remaining)
	}
	if at := find(h, history.Granted)[0].At; at != 3*time.Second {
		t.Errorf("granted at %v, before the caller had it", at)
	}
}

func TestWhatAProcessHasUnderWayEndsWithIt(t *testing.T) {
	t.Parallel()
	h := story.Merge([]story.Line{
		event(0, 1*time.Second, 1*time.Second, asked(1, 4*time.Second)),
		event(0, 2*time.Second, 2*time.Second, granted(1, 10)),
		event(0, 2*time.Second, 2*time.Second, asked(2, 4*time.Second)),
		event(1, 2*time.Second, 2*time.Second, asked(3, 4*time.Second)),
		kind(0, 5*time.Second, story.KindExit, "killed"),
	})
	over, refused := find(h, history.Ended), find(h, history.Refused)
	if len(over) != 1 || over[0].Token != 10 || over[0].Cause != story.CauseDied || over[0].At != 5*time.Second {
		t.Errorf("%v: a dead holder would excuse for ever that nobody else gets the lock", over)
	}
	if len(refused) != 1 || refused[0].Op != 2 || refused[0].Until > 4*time.Second {
		t.Errorf("%v: want op 2 answered in time, and op 3 of a living process open", refused)
	}
}

func TestALeaseThatItsNodeGivesBackIsNotLostEarly(t *testing.T) {
	t.Parallel()
	h := story.Merge([]story.Line{
		event(0, 1*time.Second, 1*time.Second, asked(1, time.Minute)),
		event(0, 1*time.Second, 1*time.Second, granted(1, 10)),
		event(0, 1*time.Second, 1*time.Second, held(10, ttl)),
		kind(0, 1500*ms, story.KindClosing, ""),
		event(1, 1*time.Second, 1*time.Second, asked(2, time.Minute)),
		event(1, 1600*ms, 1600*ms, granted(2, 11)),
	})
	if found := history.EndsByRight(h, oneClock()); len(found) > 0 {
		t.Error(found)
	}
}

func TestACallIsOnlyExcusedForTheTimeItsProcessStoodStill(t *testing.T) {
	t.Parallel()
	lines := func(answer time.Duration) []story.Line {
		return append(begun(),
			event(0, 2*time.Second, 2*time.Second, asked(1, 4*time.Second)),
			kindSpan(0, 3*time.Second, 9*time.Second, story.KindStall),
			kindSpan(0, 5*time.Second, 8*time.Second, story.KindStall), // counts once
			event(0, answer, answer, history.Event{Kind: history.Refused, Op: 1, Lock: "a"}))
	}
	for answer, want := range map[time.Duration]time.Duration{9100 * ms: 4100 * ms, 11 * time.Second: 6 * time.Second} {
		got := find(story.Merge(lines(answer)), history.Refused)[0]
		if got.Until != want {
			t.Errorf("an answer at %v counts as at %v, want %v", answer, got.Until, want)
		}
		if got.At != 4*time.Second {
			t.Errorf("the call stopped waiting at %v: it was over at its deadline", got.At)
		}
	}
}

func kindSpan(node int, from, to time.Duration, k story.Kind) story.Line {
	return at(node, from, to, story.Line{Kind: k})
}

func TestARecordIsReadAsFarAsItWasWritten(t *testing.T) {
	t.Parallel()
	const whole = `{"Kind":"note","From":1,"To":2,"Node":3,"Text":"x"}` + "\n"
	lines, err := story.Read(strings.NewReader(whole + whole + `{"Kind":"no`))
	if err != nil || len(lines) != 2 || lines[1].Node != 3 || lines[1].To != 2 {
		t.Errorf("%v, %v", lines, err)
	}
	if _, err := story.Read(strings.NewReader(whole + "garbage\n" + whole)); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v: a record that is damaged in the middle shows nothing", err)
	}
}
