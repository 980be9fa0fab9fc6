package porcupine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
	"github.com/holdfast-go/holdfast/sim/porcupine"
)

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

// set asks for {t}a and {t}b at once.
func set(op uint64) history.Event {
	e := ask(op)
	e.Lock, e.Others = "{t}a", []string{"{t}b"}
	return e
}

func at(lock string, list ...history.Event) events {
	for i := range list {
		list[i].Lock = lock
	}
	return list
}

func look(op uint64, tokens ...uint64) events {
	return events{{Kind: history.Look, Op: op}, {Kind: history.Looked, Op: op, Tokens: append([]uint64{}, tokens...)}}
}

// list is one look at both names of a set.
func list(op uint64, a, b []uint64) events {
	return events{
		{Kind: history.Look, Op: op, Lock: "{t}"}, {Kind: history.Looked, Op: op, Lock: "{t}a", Tokens: append([]uint64{}, a...)},
		{Kind: history.Looked, Op: op, Lock: "{t}b", Tokens: append([]uint64{}, b...)},
	}
}

func campaign(op uint64, v string) history.Event {
	e := ask(op)
	e.Election, e.Value = true, v
	return e
}

func who(op, token uint64, v string) events {
	return events{{Kind: history.Who, Op: op}, {Kind: history.Leads, Op: op, Token: token, Value: v}}
}

func TestHistoriesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]events{
		"a lock is granted again while its token is confirmed": join(events{ask(1), grant(1, 10), ask(2), grant(2, 11)}, verify(3, 10, true)),
		"a token goes back":                      {ask(1), grant(1, 10), on(history.Release, 10), on(history.Released, 10), ask(2), grant(2, 9)},
		"a token is given twice":                 {ask(1), ask(2), grant(1, 10), grant(2, 10)},
		"a released token is confirmed":          join(events{ask(1), grant(1, 10), on(history.Release, 10), on(history.Released, 10)}, verify(3, 10, true)),
		"a token is denied and then confirmed":   join(events{ask(1), grant(1, 10)}, verify(3, 10, false), verify(4, 10, true)),
		"five permits of four":                   join(events{permit(1, 2, 4), grant(1, 10), permit(2, 3, 4), grant(2, 11)}, verify(3, 10, true)),
		"a writer beside a reader":               join(events{permit(1, 1, 9), grant(1, 10), permit(2, 9, 9), grant(2, 11)}, verify(3, 10, true)),
		"a lock is freed by force and held":      join(events{ask(1), grant(1, 10), {Kind: history.Force, Op: 2, Token: 10}, {Kind: history.Forced, Op: 2, OK: true}}, look(3, 10)),
		"a look finds a lock free, and then not": join(events{ask(1), grant(1, 10)}, look(3), look(4, 10)),
	} {
		if _, err := porcupine.Check(script(h...), patience, 1); err == nil {
			t.Errorf("%s: no objection", name)
		}
	}
}

func TestHistoriesThatMayBeAreAccepted(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]events{
		"a lease ends unseen":                  join(events{ask(1), grant(1, 10), ask(2), grant(2, 11)}, verify(3, 10, false), verify(4, 11, true)),
		"the release of a lease that was lost": {ask(1), grant(1, 10), on(history.Release, 10), ask(2), grant(2, 11), on(history.Released, 10)},
		"a release in doubt":                   join(events{ask(1), grant(1, 10), on(history.Release, 10)}, verify(3, 10, true), verify(4, 10, false)),
		"a token that nobody lived to tell of": join(events{ask(1), grant(1, 10)}, verify(3, 12, true), verify(4, 12, false)),
		"answers that cross":                   {ask(1), ask(2), grant(2, 11), grant(1, 10)},
		"readers that share":                   join(events{permit(1, 1, 9), grant(1, 10), permit(2, 1, 9), grant(2, 11)}, verify(3, 10, true), verify(4, 11, true)),
		"a set and its names by turns": join(at("{t}b", ask(2), grant(2, 11)), events{set(3)}, at("{t}b", on(history.Release, 11), on(history.Released, 11)), at("{t}a", grant(3, 12)),
			list(4, []uint64{12}, []uint64{12}), at("{t}b", verify(5, 12, true)...)),
		"a leader that publishes":           join(events{campaign(1, "a"), grant(1, 10), value(history.Set, 2, "x", false)}, who(3, 10, "a"), who(4, 10, "x")),
		"a robbed holder hears of it later": join(events{ask(1), grant(1, 10), {Kind: history.Force, Op: 2, Token: 10}, {Kind: history.Forced, Op: 2, OK: true}, ask(3), grant(3, 11)}, look(4, 11)),
	} {
		if _, err := porcupine.Check(script(h...), patience, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No decision is no proof, and neither is a history in which nothing happened.
func TestWhatIsNotDecidedOrNotTriedFails(t *testing.T) {
	t.Parallel()
	if _, err := porcupine.Check(script(ask(1), grant(1, 10)), patience, 100); err == nil || !strings.Contains(err.Error(), "vacuous") {
		t.Errorf("two operations where a hundred were wanted: %v", err)
	}
	// Many grants in any order, and releases in doubt: too many orders to try them all.
	var h events
	for op := range uint64(40) {
		h = append(h, permit(op+1, 1, 40))
	}
	for op := range uint64(40) {
		h = append(h, grant(op+1, op+10), on(history.Release, op+10))
	}
	for op := range uint64(40) {
		h = append(h, verify(100+op, 10+op*7%40, op%3 != 0)...)
	}
	h = append(h, look(200, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)...)
	verdicts, err := porcupine.Check(script(h...), time.Millisecond, 1)
	if err == nil || len(verdicts) != 1 || !verdicts[0].Undecided {
		t.Errorf("%v, %v", verdicts, err)
	}
}
