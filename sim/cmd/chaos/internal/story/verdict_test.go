package story_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/cmd/chaos/internal/story"
	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// handover is a lock that goes from node 0 to node 1 at one moment; last is the last look of node 0
// at its lease.
func handover(last history.Event, lastAt, next time.Duration, between ...story.Line) []history.Event {
	return story.Merge(join(begun(), []story.Line{
		event(0, 1*time.Second, 1*time.Second, history.Event{Kind: history.Opened, Value: "a"}),
		event(0, 1*time.Second, 1*time.Second, asked(1, time.Minute)),
		event(1, 1*time.Second, 1*time.Second, asked(2, time.Minute)),
		event(0, 1100*ms, 1100*ms, granted(1, 10)),
		event(0, 1200*ms, 1200*ms, held(10, 1900*ms)),
		event(0, lastAt, lastAt, last),
		event(1, next, next, granted(2, 11)),
	}, between))
}

// oneClock are the bounds of a record: all processes read the clock of one machine.
func oneClock() history.Bounds {
	return history.Bounds{TTL: ttl, Drift: 0.01, Clock: 2 * ms}
}

// starts is node 0, started again.
func starts(at time.Duration, proof bool) story.Line {
	l := kind(0, at, story.KindStart, "")
	l.Life, l.Proof = 2, proof
	return l
}

func revokes(id string) history.Event {
	return history.Event{Kind: history.Revoke, Op: 7, Value: id}
}

func TestNobodyIsGrantedWhatAnotherMayStillRelyOn(t *testing.T) {
	t.Parallel()
	last := held(10, 1900*ms) // at 2 s: until 3.9 s
	died := kind(0, 2500*ms, story.KindExit, "")
	for name, c := range map[string]struct {
		h     []history.Event
		early bool
	}{
		"within the validity":         {handover(last, 2*time.Second, 3800*ms), true},
		"after it":                    {handover(last, 2*time.Second, 4*time.Second), false},
		"a stopped holder finds out":  {handover(last, 2*time.Second, 3800*ms, event(0, 6*time.Second, 6*time.Second, ended(10, history.CauseExpired))), true},
		"it was released":             {handover(last, 2*time.Second, 3*time.Second, event(0, 2500*ms, 2500*ms, of(history.Release, 10))), false},
		"it was released afterwards":  {handover(last, 2*time.Second, 3*time.Second, event(0, 3500*ms, 3500*ms, of(history.Release, 10))), true},
		"the holder's process died":   {handover(last, 2*time.Second, 3*time.Second, died), true}, // of which nobody knows
		"and the next proves it":      {handover(last, 2*time.Second, 3*time.Second, died, starts(2600*ms, true)), false},
		"and it proves nothing":       {handover(last, 2*time.Second, 3*time.Second, died, starts(2600*ms, false)), true},
		"its node closed":             {handover(last, 2*time.Second, 3*time.Second, kind(0, 2500*ms, story.KindClosing, "")), false},
		"its node was revoked":        {handover(last, 2*time.Second, 3*time.Second, died, event(2, 2600*ms, 2600*ms, revokes("a"))), false},
		"another one was revoked":     {handover(last, 2*time.Second, 3*time.Second, died, event(2, 2600*ms, 2600*ms, revokes("b"))), true},
		"an operator took it":         {handover(last, 2*time.Second, 3*time.Second, event(0, 2500*ms, 2500*ms, of(history.Force, 10))), false},
		"before its holder heard":     {handover(last, 2*time.Second, 3*time.Second, event(2, 1050*ms, 1050*ms, of(history.Force, 10))), false},
		"it was taken afterwards":     {handover(last, 2*time.Second, 3*time.Second, event(0, 3500*ms, 3500*ms, of(history.Force, 10))), true},
		"proven dead afterwards":      {handover(last, 2*time.Second, 3*time.Second, died, starts(3500*ms, true)), true},
		"its time under a cap was up": {handover(last, 2*time.Second, 3*time.Second, event(0, 2500*ms, 2500*ms, ended(10, "max hold"))), false},
	} {
		if found := history.EndsByRight(c.h, oneClock()); (len(found) > 0) != c.early {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestTheLedgersTellLostUpdates(t *testing.T) {
	t.Parallel()
	ledger, err := story.ReadLedger(strings.NewReader("1 0 5 0\n2 1 6 1\n3 2 6 1\n2 1 5 0\n3 2 7 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := story.Lost(ledger); n != 1 {
		t.Errorf("%d lost updates: one entry is based on the first although two more had been written", n)
	}
	v, err := story.Judge(begun(), ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(v)
	for _, rule := range []string{"no stale token writes", "no update is lost behind the guard"} {
		if !slices.Contains(rules, rule) {
			t.Errorf("%q was not found in %v", rule, rules)
		}
	}
	if v, _ := story.Judge(begun(), nil, ledger); len(v.Violations) > 0 || v.Figures.UnfencedLost != 1 {
		t.Errorf("%v: the twin without a guard promises nothing", v.Violations)
	}
	if _, err := story.ReadLedger(strings.NewReader("1 0 5\n")); err == nil {
		t.Error("a damaged ledger was read")
	}
}

func rulesOf(v story.Verdict) (all []string) {
	for _, x := range v.Violations {
		all = append(all, x.Rule)
	}
	return all
}

func TestWhatFailsByItselfIsAViolation(t *testing.T) {
	t.Parallel()
	v, err := story.Judge(append(begun(), kind(2, time.Second, story.KindWrong, "the process ended by itself")), nil, nil)
	if err != nil || len(v.Violations) != 1 || v.OK() {
		t.Errorf("%v, %v: a library must not take its host down", v.Violations, err)
	}
}

func TestTwoHoldersAtOnceAreFound(t *testing.T) {
	t.Parallel()
	v, err := story.Judge(join(begun(), []story.Line{
		event(0, 1*time.Second, 1*time.Second, asked(1, time.Minute)),
		event(0, 1100*ms, 1100*ms, granted(1, 10)),
		event(0, 1100*ms, 1100*ms, held(10, 1900*ms)),
		event(1, 1*time.Second, 1*time.Second, asked(2, time.Minute)),
		event(1, 1200*ms, 1200*ms, granted(2, 11)),
		event(1, 1200*ms, 1200*ms, held(11, 1900*ms)),
		event(0, 1300*ms, 1300*ms, held(10, 1700*ms)),
		event(0, 1400*ms, 1400*ms, of(history.Release, 10)),
		event(1, 1400*ms, 1400*ms, of(history.Release, 11)),
	}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"mutual exclusion", "a grant ends by right"} {
		if !slices.Contains(rulesOf(v), rule) {
			t.Errorf("%q was not found in %v", rule, v.Violations)
		}
	}
}

func TestARunInWhichNothingHappensIsVacuous(t *testing.T) {
	t.Parallel()
	v, err := story.Judge(begun(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.OK() || len(v.Violations) > 0 {
		t.Errorf("passed, or %v", v.Violations)
	}
	for _, what := range []string{"grants", "faults", "raft leaders", "expired", "without a guard", "stale writes", "served after"} {
		if !slices.ContainsFunc(v.Vacuous, func(s string) bool { return strings.Contains(s, what) }) {
			t.Errorf("%q is not missed in %v", what, v.Vacuous)
		}
	}
	if _, err := story.Judge(nil, nil, nil); err == nil {
		t.Error("an empty record was judged")
	}
}

func TestRaftLeadersAreThoseWhoSayItOfThemselves(t *testing.T) {
	t.Parallel()
	v, err := story.Judge(append(begun(),
		status(0, 2*time.Second, 2*time.Second, "a", true), status(1, 2*time.Second, 2*time.Second, "a", true),
		status(0, 3*time.Second, 3*time.Second, "a", true), status(1, 4*time.Second, 4*time.Second, "b", true),
	), nil, nil)
	if err != nil || v.Figures.Terms != 2 {
		t.Errorf("%d raft leaders, %v", v.Figures.Terms, err)
	}
}

// A node that is silent, removed or dead keeps what it holds until its TTL is over: the checkers of
// sim/internal/history know who had the right to end it, if the record tells who was started on
// whose disk.
func TestALongLeaseOfTheDeadOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	long := asked(1, time.Minute)
	long.TTL = 10 * time.Minute
	run := func(between ...story.Line) story.Verdict {
		v, err := story.Judge(join(begun(), []story.Line{
			event(0, 1*time.Second, 1*time.Second, history.Event{Kind: history.Opened, Value: "a"}),
			event(0, 1*time.Second, 1*time.Second, long),
			event(0, 1100*ms, 1100*ms, granted(1, 10)),
			event(0, 1200*ms, 1200*ms, held(10, 9*time.Minute)),
			kind(0, 2*time.Second, story.KindExit, "killed"),
		}, between, []story.Line{
			event(1, 1*time.Second, 1*time.Second, asked(2, time.Minute)),
			event(1, 40*time.Second, 40*time.Second, granted(2, 11)),
		}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := run(); !slices.Contains(rulesOf(v), "a grant ends by right") {
		t.Errorf("%v: nobody had the right", v.Violations)
	}
	if v := run(starts(3*time.Second, false)); !slices.Contains(rulesOf(v), "a grant ends by right") {
		t.Errorf("%v: an empty disk proves nothing", v.Violations)
	}
	if v := run(starts(3*time.Second, true)); len(v.Violations) > 0 {
		t.Errorf("%v: the next process on its disk proves that it is dead", v.Violations)
	}
	if v := run(event(2, 3*time.Second, 3*time.Second, revokes("a"))); len(v.Violations) > 0 {
		t.Errorf("%v: an operator took it", v.Violations)
	}
}
