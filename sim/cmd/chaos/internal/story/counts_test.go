package story_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/internal/workload"
)

// lines makes a record of what one process saw, a tenth of a second after each other from a moment
// on.
func lines(node int, from time.Duration, events ...history.Event) (all []story.Line) {
	for i, e := range events {
		when := from + time.Duration(i)*100*ms
		all = append(all, event(node, when, when, e))
	}
	return all
}

// grantOf makes the events of one exclusive grant: it was asked for, granted, and looked at.
func grantOf(lock string, op, token uint64, others ...string) []history.Event {
	ask := history.Event{Kind: history.Asked, Op: op, Lock: lock, Others: others, Wait: true, Until: time.Minute, Weight: 1, Limit: 1}
	return []history.Event{
		ask, {Kind: history.Granted, Op: op, Lock: lock, Token: token},
		{Kind: history.Held, Lock: lock, Token: token, Remaining: 1900 * ms},
	}
}

func with(e history.Event, change func(*history.Event)) history.Event { change(&e); return e }

func released(lock string, token uint64) []history.Event {
	return []history.Event{{Kind: history.Release, Lock: lock, Token: token}, {Kind: history.Released, Lock: lock, Token: token}}
}

// rests is a grant of node 0 that asked for a rest and ended, and one of node 1 that was there a
// second after the first.
func rests(change func(*history.Event), end ...history.Event) []story.Line {
	first, next := grantOf("r", 1, 10), grantOf("r", 2, 11)
	change(&first[0])
	return join(begun(), lines(0, time.Second, append(first, end...)...), lines(1, 1900*ms, next...))
}

// told is what a watcher is told of lock "r".
func told(op, index uint64, change string, of, token uint64) history.Event {
	return history.Event{Kind: history.Told, Op: op, Lock: "r", Index: index, Change: change, Of: of, Token: token}
}

func watches(op uint64) history.Event { return history.Event{Kind: history.Watching, Op: op} }

func write(op uint64, token uint64, value string) []history.Event {
	e := history.Event{Kind: history.Set, Op: op, Lock: workload.Checkpoint, Token: token, Value: value}
	return []history.Event{e, with(e, func(e *history.Event) { e.Kind, e.OK = history.Done, true })}
}

// Each kind of lock in a record that breaks its promise. What the checkers of sim/internal/history
// find is tested there; here it is that a record of real processes reaches them whole.
func TestARecordThatBreaksThePromiseOfAKindIsRejected(t *testing.T) {
	t.Parallel()
	seat := func(node int, op, token uint64) []story.Line {
		return lines(node, time.Second, append(grantOf(workload.Election, op, token), history.Event{Kind: history.Held, Lock: workload.Election, Token: token})...)
	}
	who := history.Event{Kind: history.Who, Op: 5, Lock: workload.Election}
	nobody := with(who, func(e *history.Event) { e.Kind = history.Leads })
	observes := history.Event{Kind: history.Observing, Op: 8, Lock: workload.Election}
	observed := func(token uint64) history.Event {
		return with(observes, func(e *history.Event) { e.Kind, e.Token = history.Observed, token })
	}
	for rule, record := range map[string][]story.Line{
		"mutual exclusion": join(begun(), seat(0, 1, 10), seat(1, 2, 11)),
		"no grant is forgotten": join(begun(), lines(0, time.Second, grantOf(workload.Election, 1, 10)...), lines(1, 1300*ms, who, nobody),
			lines(0, 1600*ms, history.Event{Kind: history.Held, Lock: workload.Election, Token: 10})),
		"an observer is told in order": join(begun(), lines(2, time.Second, observes, observed(11), observed(10))),
		"a minimum hold time is kept":  rests(func(e *history.Event) { e.MinHold = 2 * time.Second }, released("r", 10)...),
		"a lock delay is kept": rests(func(e *history.Event) { e.LockDelay = 2 * time.Second },
			history.Event{Kind: history.Ended, Lock: "r", Token: 10, Cause: "max hold"}),
		"no checkpoint is lost":    join(begun(), lines(0, time.Second, write(1, 10, "1 a")...), lines(1, 2*time.Second, write(2, 11, "1 b")...)),
		"a checkpoint is a number": join(begun(), lines(0, time.Second, write(1, 10, "one")...)),
		"a watch goes by the log":  join(begun(), lines(0, time.Second, watches(8), told(8, 5, history.ChangeQueued, 1, 0), told(8, 4, history.ChangeQueued, 2, 0))),
		"a watch misses nothing": join(begun(),
			lines(0, time.Second, watches(8), told(8, 4, history.ChangeQueued, 1, 0), told(8, 5, history.ChangeQueued, 2, 0), told(8, 6, history.ChangeQueued, 3, 0)),
			lines(1, time.Second, watches(9), told(9, 4, history.ChangeQueued, 1, 0), told(9, 6, history.ChangeQueued, 3, 0))),
		"a set is never held in part": join(begun(), lines(0, time.Second, grantOf("{set}x", 1, 10, "{set}y")...), lines(1, 1500*ms,
			history.Event{Kind: history.Look, Op: 5, Lock: "{set}"}, history.Event{Kind: history.Looked, Op: 5, Lock: "{set}x", Tokens: []uint64{10}},
			history.Event{Kind: history.Looked, Op: 5, Lock: "{set}y", Tokens: []uint64{}})),
	} {
		v, err := story.Judge(record, nil, nil)
		if err != nil || !slices.Contains(rulesOf(v), rule) {
			t.Errorf("%s: found %v, %v", rule, v.Violations, err)
		}
	}
	set := join(begun(), lines(0, time.Second, append(grantOf("{set}x", 1, 10, "{set}y"), history.Event{Kind: history.Held, Lock: "{set}x", Token: 10})...),
		lines(1, time.Second, append(grantOf("{set}y", 2, 11), history.Event{Kind: history.Held, Lock: "{set}y", Token: 11})...))
	v, err := story.Judge(set, nil, nil)
	if err != nil || !slices.Contains(rulesOf(v), "mutual exclusion") {
		t.Errorf("a set beside a holder of one of its names: %v, %v", v.Violations, err)
	}
}

func TestWhatARecordOfTheKindsMayHold(t *testing.T) {
	t.Parallel()
	for name, record := range map[string][]story.Line{
		"a rest that was waited for": rests(func(e *history.Event) { e.MinHold = 900 * ms }, released("r", 10)...),
		"a minimum hold time that was lost": rests(func(e *history.Event) { e.MinHold = time.Minute },
			history.Event{Kind: history.Ended, Lock: "r", Token: 10, Cause: "max hold"}),
		"a delay that was not asked for":  rests(func(e *history.Event) { e.LockDelay = time.Minute }, released("r", 10)...),
		"checkpoints one after the other": join(begun(), lines(0, time.Second, append(write(1, 10, "1 a"), write(2, 10, "2 b")...)...), lines(1, 2*time.Second, write(3, 11, "3 c")...)),
		"a watcher that died is told no more": join(begun(), lines(2, 1100*ms, watches(8)), []story.Line{kind(2, 1200*ms, story.KindExit, "")},
			lines(0, 1300*ms, grantOf("r", 1, 10)...), lines(0, 9*time.Second, held(10, 1900*ms))),
	} {
		if v, err := story.Judge(record, nil, nil); err != nil || len(v.Violations) > 0 {
			t.Errorf("%s: %v, %v", name, v.Violations, err)
		}
	}
}

// A watcher that is well must be told; without the end of its process the record above is a
// violation.
func TestAWatcherThatLivesIsToldInTime(t *testing.T) {
	t.Parallel()
	record := join(begun(), lines(2, 1100*ms, watches(8)), lines(0, 1300*ms, grantOf("r", 1, 10)...), lines(0, 9*time.Second, held(10, 1900*ms)))
	if v, err := story.Judge(record, nil, nil); err != nil || !slices.Contains(rulesOf(v), "a watch tells in time") {
		t.Errorf("%v, %v", v.Violations, err)
	}
}

func TestTheKindsAreCountedAndMissed(t *testing.T) {
	t.Parallel()
	v, err := story.Judge(begun(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"sets", "tenures", "observed", "minimum hold", "delays", "checkpoints", "changes told"} {
		if !slices.ContainsFunc(v.Vacuous, func(s string) bool { return strings.Contains(s, what) }) {
			t.Errorf("%q is not missed in %v", what, v.Vacuous)
		}
	}
	led := grantOf(workload.Election, 22, 31)
	led[0].Election = true
	record := join(begun(), lines(0, time.Second, grantOf("{set}x", 21, 30, "{set}y")...), lines(0, 2*time.Second, led...),
		lines(1, time.Second, write(3, 9, "1 a")...), lines(2, time.Second, watches(8), told(8, 4, history.ChangeResync, 0, 0), told(8, 5, history.ChangeQueued, 1, 0),
			history.Event{Kind: history.Observing, Op: 7, Lock: workload.Election}, history.Event{Kind: history.Observed, Op: 7, Lock: workload.Election}),
		rests(func(e *history.Event) { e.LockDelay = 500 * ms }, history.Event{Kind: history.Ended, Lock: "r", Token: 10, Cause: "max hold"})[1:])
	if v, err = story.Judge(record, nil, nil); err != nil {
		t.Fatal(err)
	}
	n := v.Figures.Seen
	got := []int{n.Wholes, n.Tenures, n.Observed, n.Delays, n.Told, n.Resyncs, n.MinHolds, v.Figures.Checkpoints}
	if !slices.Equal(got, []int{1, 1, 1, 1, 2, 1, 0, 1}) {
		t.Errorf("%+v", n)
	}
}
