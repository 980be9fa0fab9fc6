package porcupine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/history"
	"github.com/holdfast-go/holdfast/internal/model"
	"github.com/holdfast-go/holdfast/sim/porcupine"
)

const patience = 20 * time.Second

// Fleets under faults by seed: every lock must have behaved as one object. The seed is printed with a failure.
func TestHistoriesOfTheModelAreLinearizable(t *testing.T) {
	t.Parallel()
	first := uint64(time.Now().UnixNano()) % 1e9
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	t.Logf("seeds from %d", first)
	ops, verified := 0, 0
	for seed := first; seed < first+seeds; seed++ {
		r := model.Run(model.Random(seed))
		if r.Violation != nil {
			t.Fatalf("seed %d: %v", seed, r.Violation)
		}
		verdicts, err := porcupine.Check(r.History, patience, 1)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, v := range verdicts {
			ops += v.Ops
		}
		verified += history.Measure(r.History).Verified
	}
	t.Logf("%d operations, %d tokens verified", ops, verified)
	if ops < 500*int(seeds)/10 || verified == 0 {
		t.Error("histories without teeth")
	}
}

// script puts events a second apart.
func script(events ...history.Event) []history.Event {
	for i := range events {
		events[i].At = time.Duration(i) * time.Second
		if events[i].Lock == "" {
			events[i].Lock = "lock"
		}
	}
	return events
}

func ask(op uint64) history.Event {
	return history.Event{Kind: history.Asked, Op: op, Weight: 1, Limit: 1}
}

func permit(op uint64, weight, limit int) history.Event {
	return history.Event{Kind: history.Asked, Op: op, Weight: weight, Limit: limit}
}

func grant(op, token uint64) history.Event {
	return history.Event{Kind: history.Granted, Op: op, Token: token}
}

func on(kind history.Kind, token uint64) history.Event {
	return history.Event{Kind: kind, Token: token}
}

func verify(op, token uint64, current bool) []history.Event {
	return []history.Event{{Kind: history.Verify, Op: op, Token: token}, {Kind: history.Verified, Op: op, Token: token, OK: current}}
}

func value(kind history.Kind, op uint64, v string, ok bool) history.Event {
	return history.Event{Kind: kind, Op: op, Value: v, OK: ok}
}

func join(lists ...[]history.Event) (all []history.Event) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

type events = []history.Event

func TestHistoriesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]events{
		"a lock is granted again while its token is confirmed": join(events{ask(1), grant(1, 10), ask(2), grant(2, 11)}, verify(3, 10, true)),
		"a token goes back":                      {ask(1), grant(1, 10), on(history.Release, 10), on(history.Released, 10), ask(2), grant(2, 9)},
		"a token is given twice":                 {ask(1), ask(2), grant(1, 10), grant(2, 10)},
		"a released token is confirmed":          join(events{ask(1), grant(1, 10), on(history.Release, 10), on(history.Released, 10)}, verify(3, 10, true)),
		"a token is denied and then confirmed":   join(events{ask(1), grant(1, 10)}, verify(3, 10, false), verify(4, 10, true)),
		"five permits of four":                   join(events{permit(1, 2, 4), grant(1, 10), permit(2, 3, 4), grant(2, 11)}, verify(3, 10, true)),
		"a value that was overwritten is read":   {value(history.Set, 1, "a", false), value(history.Done, 1, "", true), value(history.Set, 2, "b", false), value(history.Done, 2, "", true), value(history.Look, 3, "", false), value(history.Looked, 3, "a", false)},
		"a write in doubt is read, and then not": {value(history.Set, 1, "a", false), value(history.Look, 3, "", false), value(history.Looked, 3, "a", false), value(history.Look, 4, "", false), value(history.Looked, 4, "", false)},
		"a key is run after it was finished":     {on(history.Begun, 10), finish(10), on(history.Begun, 11)},
		"a run that was given up finishes":       {on(history.Begun, 10), on(history.Begun, 11), finish(11), finish(10)},
	} {
		if _, err := porcupine.Check(script(h...), patience, 1); err == nil {
			t.Errorf("%s: no objection", name)
		}
	}
}

func finish(token uint64) history.Event {
	return history.Event{Kind: history.Finished, Token: token, OK: true}
}

func TestHistoriesThatMayBeAreAccepted(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]events{
		"a lease ends unseen":                   join(events{ask(1), grant(1, 10), ask(2), grant(2, 11)}, verify(3, 10, false), verify(4, 11, true)),
		"the release of a lease that was lost":  {ask(1), grant(1, 10), on(history.Release, 10), ask(2), grant(2, 11), on(history.Released, 10)},
		"a release in doubt":                    join(events{ask(1), grant(1, 10), on(history.Release, 10)}, verify(3, 10, true), verify(4, 10, false)),
		"answers that cross":                    {ask(1), ask(2), grant(2, 11), grant(1, 10)},
		"readers that share":                    join(events{permit(1, 1, 9), grant(1, 10), permit(2, 1, 9), grant(2, 11)}, verify(3, 10, true), verify(4, 11, true)),
		"a write in doubt is read, or is not":   {value(history.Set, 1, "a", false), value(history.Look, 3, "", false), value(history.Looked, 3, "", false), value(history.Look, 4, "", false), value(history.Looked, 4, "a", false)},
		"a key is run again when a runner died": {on(history.Begun, 10), on(history.Begun, 11), finish(11)},
	} {
		if _, err := porcupine.Check(script(h...), patience, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No decision is no proof, and neither is a history in which nothing happened.
func TestWhatIsNotDecidedOrNotTriedFails(t *testing.T) {
	t.Parallel()
	if _, err := porcupine.Check(script(ask(1), grant(1, 10)), patience, 100); err == nil || !strings.Contains(err.Error(), "teeth") {
		t.Errorf("two operations where a hundred were wanted: %v", err)
	}
	// Many writes in doubt at once, and reads that none of them explains: too many orders to try them all.
	var h events
	for op := range uint64(40) {
		h = append(h, value(history.Set, op+1, string(rune('a'+op)), false))
	}
	for op := range uint64(40) {
		h = append(h, value(history.Look, 100+op, "", false), value(history.Looked, 100+op, string(rune('a'+op*7%40)), false))
	}
	h = append(h, value(history.Look, 200, "", false), value(history.Looked, 200, "nobody wrote this", false))
	verdicts, err := porcupine.Check(script(h...), time.Millisecond, 1)
	if err == nil || len(verdicts) != 1 || !verdicts[0].Undecided {
		t.Errorf("%v, %v", verdicts, err)
	}
}
