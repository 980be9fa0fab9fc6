package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// set asks for {t}a and {t}b at once.
func set(op uint64, node int) history.Event {
	return named("{t}a", with(ask(op, node), func(e *history.Event) { e.Others = []string{"{t}b"} }))
}

func named(lock string, e history.Event) history.Event { e.Lock = lock; return e }

func tokens(e history.Event, tokens ...uint64) history.Event {
	e.Tokens = append([]uint64{}, tokens...)
	return e
}

func resting(minHold, delay time.Duration, e history.Event) history.Event {
	e.MinHold, e.LockDelay = minHold, delay
	return e
}

func join(lists ...[]history.Event) (all []history.Event) { return slices.Concat(lists...) }

type events = []history.Event

// rejected demands that each history breaks one rule and no other.
type rejected struct {
	rule string
	h    []history.Event
}

func (c rejected) check(t *testing.T) {
	t.Helper()
	found := but(c.rule, history.Check(c.h, bounds()))
	if len(found) == 0 {
		t.Errorf("%s: no objection to\n%s", c.rule, text(c.h))
	}
	for _, v := range found {
		if v.Rule != c.rule {
			t.Errorf("%s: found %v in\n%s", c.rule, v, text(c.h))
		}
	}
}

func accepted(t *testing.T, name string, h []history.Event) {
	t.Helper()
	for _, v := range history.Check(h, bounds()) {
		t.Errorf("%s: %v", name, v)
	}
}

func TestEachCheckOfSetsRejectsItsHistory(t *testing.T) {
	t.Parallel()
	granted := events{set(1, 0), named("{t}a", grant(1, 0, 10)), named("{t}a", held(0, 10))}
	for _, c := range []rejected{
		{"mutual exclusion", script(join(granted, events{named("{t}b", ask(2, 1)), named("{t}b", grant(2, 1, 11)), named("{t}b", held(1, 11)), named("{t}a", held(0, 10))})...)},
		{"tokens rise", script(join(granted, events{named("{t}b", ask(2, 1)), named("{t}b", grant(2, 1, 9))})...)},
		{"no grant is forgotten", script(join(granted, events{op(5, named("{t}b", on(history.Verify, 1, 10))),
			op(5, named("{t}b", on(history.Verified, 1, 10))), named("{t}a", held(0, 10))})...)},
		{"reads are current", script(join(granted, events{ // one name is denied, and the other one confirmed
			op(5, named("{t}b", on(history.Verify, 1, 10))), op(5, named("{t}b", on(history.Verified, 1, 10))),
			op(6, named("{t}a", on(history.Verify, 1, 10))), ok(op(6, named("{t}a", on(history.Verified, 1, 10))))})...)},
		{"reads are current", script(join(granted, events{named("{t}b", ask(2, 1)), named("{t}b", grant(2, 1, 11)),
			op(6, named("{t}b", on(history.Verify, 1, 10))), ok(op(6, named("{t}b", on(history.Verified, 1, 10))))})...)},
		{"a set is never held in part", script(join(granted, events{op(5, named("{t}", on(history.Look, 1, 0))),
			tokens(op(5, named("{t}a", on(history.Looked, 1, 0))), 10), tokens(op(5, named("{t}b", on(history.Looked, 1, 0))))})...)},
		{"a set never waits in part", script(set(1, 0), op(5, named("{t}", on(history.Look, 1, 0))),
			queue(op(5, named("{t}a", on(history.Looked, 1, 0))), 1), op(5, named("{t}b", on(history.Looked, 1, 0))))},
		{"waiters are served in order", script(join(well(0, 1), events{set(1, 0), named("{t}b", ask(2, 1)),
			queue(named("{t}b", on(history.Looked, 0, 0)), 1, 2), named("{t}b", grant(2, 1, 10))})...)},
		{"no lease ends early", script(join(granted, events{named("{t}a", expired(0, 10))})...)},
		{"a dead holder's lock is granted in time", script(join(well(0, 1, 2), events{set(1, 0),
			at(20*time.Second, named("{t}a", grant(1, 0, 10)))})...)},
	} {
		c.check(t)
	}
	accepted(t, "who waits behind a set waits for both of its names", script(join(well(0, 1, 2), events{
		named("{t}a", ask(1, 0)), named("{t}a", grant(1, 0, 10)), named("{t}a", held(0, 10)), set(2, 1), named("{t}b", ask(3, 2)),
		named("{t}a", held(0, 10)), named("{t}a", held(0, 10)), named("{t}a", held(0, 10)), named("{t}a", held(0, 10)), named("{t}a", held(0, 10)),
		named("{t}a", held(0, 10)), named("{t}a", held(0, 10)), named("{t}a", on(history.Release, 0, 10)), named("{t}a", grant(2, 1, 11)),
	})...))
}

func TestEachCheckOfRestsRejectsItsHistory(t *testing.T) {
	t.Parallel()
	for _, c := range []rejected{
		{"a minimum hold time is kept", script(resting(20*time.Second, 0, ask(1, 0)), grant(1, 0, 10), held(0, 10),
			on(history.Release, 0, 10), on(history.Released, 0, 10), ask(2, 1), at(19*time.Second, grant(2, 1, 11)))},
		{"a minimum hold time is kept", script( // the earliest time of a grant that waited is the last look at who was before
			ask(1, 0), grant(1, 0, 10), held(0, 10), resting(20*time.Second, 0, ask(2, 1)), at(8*time.Second, held(0, 10)),
			on(history.Release, 0, 10), grant(2, 1, 11), on(history.Release, 1, 11), on(history.Released, 1, 11), ask(3, 0),
			at(27*time.Second, grant(3, 0, 12)))},
		{"a lock delay is kept", script(resting(0, 20*time.Second, ask(1, 0)), grant(1, 0, 10), held(0, 10), ask(2, 1),
			at(21*time.Second, grant(2, 1, 11)))},
		{"a lock delay is kept", script( // from when the lease was over at the earliest
			resting(0, 20*time.Second, ask(1, 0)), grant(1, 0, 10), held(0, 10), ask(2, 1),
			at(25*time.Second, grant(2, 1, 11)), expired(0, 10))},
		{"a lock delay is kept", script( // of a set, for each of its names
			resting(0, 20*time.Second, set(1, 0)), named("{t}a", grant(1, 0, 10)), named("{t}a", held(0, 10)), named("{t}b", ask(2, 1)),
			at(21*time.Second, named("{t}b", grant(2, 1, 11))))},
		{"a dead holder's lock is granted in time", script(join(well(0, 1), events{resting(10*time.Second, 0, ask(1, 0)), grant(1, 0, 10),
			on(history.Release, 0, 10), on(history.Released, 0, 10), ask(2, 1), at(30*time.Second, grant(2, 1, 11))})...)},
	} {
		c.check(t)
	}
	for name, h := range map[string][]history.Event{
		"a rest that is over in time": script(join(well(0, 1), events{resting(10*time.Second, 0, ask(1, 0)), grant(1, 0, 10),
			on(history.Release, 0, 10), on(history.Released, 0, 10), ask(2, 1), at(13*time.Second, grant(2, 1, 11))})...),
		"a lost lease knows no minimum": script(resting(time.Hour, 0, ask(1, 0)), grant(1, 0, 10), held(0, 10), ask(2, 1),
			at(30*time.Second, grant(2, 1, 11))),
		"a delay from the end of what remained": script(resting(0, 20*time.Second, ask(1, 0)), grant(1, 0, 10), held(0, 10), ask(2, 1),
			at(26*time.Second, grant(2, 1, 11)), with(expired(0, 10), func(e *history.Event) { e.Cause = history.CauseLapsed })),
		"a released lease knows no delay": script(resting(0, time.Hour, ask(1, 0)), grant(1, 0, 10), held(0, 10), on(history.Release, 0, 10),
			ask(2, 1), grant(2, 1, 11)),
		"a robbed lease knows no delay, and its holder may hear of it later": script(resting(0, time.Hour, ask(1, 0)), grant(1, 0, 10), held(0, 10),
			op(7, on(history.Force, 1, 10)), ok(op(7, on(history.Forced, 1, 10))), ask(2, 1), grant(2, 1, 11), held(1, 11), held(0, 10)),
		"a reader's rest keeps out writers only": script(permit(1, 8, resting(0, time.Hour, ask(1, 0))), grant(1, 0, 10), held(0, 10),
			permit(1, 8, ask(2, 1)), grant(2, 1, 11)),
	} {
		accepted(t, name, h)
	}
}

func TestReadsOfHoldersAreCurrent(t *testing.T) {
	t.Parallel()
	who := func(o, token uint64) events {
		return events{op(o, on(history.Who, 1, 0)), op(o, on(history.Leads, 1, token))}
	}
	look := func(o uint64, seen ...uint64) events {
		return events{op(o, on(history.Look, 1, 0)), tokens(op(o, on(history.Looked, 1, 0)), seen...)}
	}
	granted := events{ask(1, 0), grant(1, 0, 10), held(0, 10)}
	released := join(granted, events{on(history.Release, 0, 10), on(history.Released, 0, 10)})
	revoked := join(events{value("id", on(history.Opened, 0, 0))}, granted,
		events{op(7, value("id", on(history.Revoke, 1, 0))), ok(op(7, value("id", on(history.Revoked, 1, 0))))}, look(4, 10))
	accepted(t, "a grant of a revoked node may go late", script(join(revoked, who(5, 10), look(6))...))
	accepted(t, "a grant that a second operator forces, too, was gone before", script(join(granted,
		events{op(7, on(history.Force, 1, 10)), ok(op(7, on(history.Forced, 1, 10)))}, look(5),
		events{op(8, on(history.Force, 2, 10)), held(0, 10)})...))
	for _, c := range []rejected{
		{"no grant is forgotten", script(join(granted, who(5, 0), events{held(0, 10)})...)},
		{"no grant is forgotten", script(join(granted, look(5), events{held(0, 10)})...)},
		{"reads are current", script(join(released, who(5, 10))...)},
		{"reads are current", script(join(released, look(5, 10))...)},
		{"reads are current", script(join(revoked, look(5), who(6, 10))...)},
		{"reads are current", script(join(granted, events{op(7, on(history.Force, 1, 10)), ok(op(7, on(history.Forced, 1, 10)))}, who(5, 10))...)},
		{"reads are current", script(join(granted, events{ask(2, 1), grant(2, 1, 11)}, who(5, 10))...)},
		{"reads are current", script(join(events{ask(1, 0), ask(2, 1), grant(2, 1, 11)}, who(5, 11), who(6, 10))...)},
	} {
		c.check(t)
	}
	accepted(t, "what is asked meanwhile may be either", script(join(granted, events{op(5, on(history.Who, 1, 0)), on(history.Release, 0, 10),
		on(history.Released, 0, 10), op(5, on(history.Leads, 1, 10))})...))
}

func TestValuesOfCandidatesAreWrittenAtTheirGrants(t *testing.T) {
	t.Parallel()
	lead := func(o uint64, node int, v string) history.Event { return value(v, ask(o, node)) }
	who := func(o, token uint64, v string) events {
		return events{op(o, on(history.Who, 1, 0)), value(v, op(o, on(history.Leads, 1, token)))}
	}
	for _, c := range []rejected{
		{"values are what was written", script(join(events{lead(1, 0, "a"), grant(1, 0, 10)}, who(5, 10, "b"))...)},
		{"values are current", script(join(events{lead(1, 0, "a"), grant(1, 0, 10)}, who(5, 10, ""))...)},
		{"values are current", script(join(events{lead(1, 0, "a"), grant(1, 0, 10), op(4, value("x", on(history.Set, 0, 10))), ok(op(4, on(history.Done, 0, 10)))}, who(5, 10, "a"))...)},
	} {
		c.check(t)
	}
	accepted(t, "a candidate that leads again has the same address", script(join(events{lead(1, 0, "a"), grant(1, 0, 10)}, who(4, 10, "a"),
		events{on(history.Release, 0, 10), lead(2, 1, "b"), grant(2, 1, 11), on(history.Release, 1, 11), lead(3, 0, "a"), grant(3, 0, 12)}, who(5, 12, "a"))...))
}

func TestEachCheckOfObserversRejectsItsHistory(t *testing.T) {
	t.Parallel()
	observing := op(9, on(history.Observing, 2, 0))
	told := func(token uint64) history.Event { return op(9, on(history.Observed, 2, token)) }
	lead := events{ask(1, 0), grant(1, 0, 10), held(0, 10)}
	resign := events{on(history.Release, 0, 10), on(history.Released, 0, 10)}
	begin := join(well(0, 1, 2), events{observing, told(0)})
	late := events{at(time.Minute, on(history.Led, 0, 0))} // the end of the history
	for _, c := range []rejected{
		{"an observer is told in order", script(observing, told(11), told(10))},
		{"an observer is told in order", script(observing, told(10), told(0), told(10))},
		{"an observer is told once", script(observing, told(10), told(10))},
		{"an observer is told the truth", script(join(events{observing, told(0)}, lead, events{told(10), told(0), held(0, 10)})...)},
		{"an observer is told all in time", script(join(begin, lead, late)...)},
		{"an observer is told all in time", script(join(begin, lead, resign, events{told(11), told(0)}, late)...)},
		{"an observer is told all in time", script(join(begin, lead, events{told(10)}, resign, late)...)},
		{"an observer is told of vacancies", script(join(begin, lead, events{told(10)}, resign, events{ask(2, 1), told(11), grant(2, 1, 11)})...)},
		{"reads are current", script(join(lead, resign, events{observing, told(10)})...)},
	} {
		c.check(t)
	}
	for name, h := range map[string][]history.Event{
		"one that is told all": script(join(begin, lead, events{told(10)}, resign, events{told(0), ask(2, 1), grant(2, 1, 11), told(11), value("x", told(11))}, late)...),
		"one on an ill node":   script(join(begin, events{on(history.Ill, 2, 0)}, lead, resign, late)...),
		"one that stopped":     script(join(begin, lead[:2], events{op(9, on(history.Unheard, 2, 0))}, late)...),
		"a hand-over leaves no vacancy": script(join(begin, lead, events{told(10), ask(2, 1)}, resign,
			events{grant(2, 1, 11), told(11)})...),
	} {
		accepted(t, name, h)
	}
}
