package history_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// told is what the watcher op is told on node 2.
func told(o, index uint64, change string, of, token uint64) history.Event {
	return history.Event{Kind: history.Told, Op: o, Node: 2, Index: index, Change: change, Of: of, Token: token}
}

func watching(o uint64, prefix string) history.Event {
	return named(prefix, op(o, on(history.Watching, 2, 0)))
}

func TestEachCheckOfWatchersRejectsItsHistory(t *testing.T) {
	t.Parallel()
	a, b := watching(8, "lock"), watching(9, "l")
	lead := events{ask(1, 0), grant(1, 0, 10), held(0, 10)}
	resign := events{on(history.Release, 0, 10), on(history.Released, 0, 10)}
	late := events{at(time.Minute, on(history.Led, 0, 0))}
	for _, c := range []rejected{
		{"a watch goes by the log", script(a, told(8, 5, history.ChangeGranted, 1, 10), told(8, 4, history.ChangeQueued, 2, 0))},
		{"a watch goes by the log", script(a, told(8, 5, history.ChangeResync, 0, 0), told(8, 5, history.ChangeQueued, 2, 0))},
		{"a watch tells what was asked for", script(a, named("other", told(8, 5, history.ChangeQueued, 2, 0)))},
		{"a change is told once", script(a, told(8, 5, history.ChangeQueued, 1, 0), told(8, 5, history.ChangeQueued, 1, 0))},
		{"a watch misses nothing", script(a, b, told(8, 4, history.ChangeQueued, 1, 0), told(8, 5, history.ChangeQueued, 2, 0), told(8, 6, history.ChangeQueued, 3, 0),
			told(9, 4, history.ChangeQueued, 1, 0), told(9, 6, history.ChangeQueued, 3, 0))},
		{"a watch tells in time", script(join(well(0, 1, 2), events{a}, lead, late)...)},
		{"a watch tells in time", script(join(well(0, 1, 2), events{a}, lead, events{told(8, 5, history.ChangeGranted, 1, 10)}, resign, late)...)},
		{"a watch tells in time", script(join(well(0, 1, 2), events{a, op(4, value("v", on(history.Set, 0, 10))), ok(op(4, on(history.Done, 0, 10)))}, late)...)},
		{"a watch tells in time", script(join(well(0, 1, 2), events{watching(8, "{t}"), set(1, 0), named("{t}a", grant(1, 0, 10)),
			named("{t}a", told(8, 5, history.ChangeGranted, 1, 10))}, late)...)},
	} {
		c.check(t)
	}
	for name, h := range map[string][]history.Event{
		"all is told": script(join(well(0, 1, 2), events{a, b}, lead, events{told(8, 5, history.ChangeGranted, 1, 10), at(8*time.Second, told(9, 5, history.ChangeGranted, 1, 10))},
			resign, events{told(8, 6, history.ChangeReleased, 1, 10), told(9, 6, history.ChangeReleased, 1, 10)}, late)...),
		"one that was told of a gap": script(a, b, told(8, 4, history.ChangeQueued, 1, 0), told(8, 5, history.ChangeQueued, 2, 0), told(8, 6, history.ChangeQueued, 3, 0),
			told(9, 4, history.ChangeQueued, 1, 0), told(9, 5, history.ChangeResync, 0, 0), told(9, 6, history.ChangeQueued, 3, 0)),
		"one that was told of a gap in time": script(join(well(0, 1, 2), events{a}, lead, events{told(8, 5, history.ChangeResync, 0, 0)}, late)...),
		"one on an ill node":                 script(join(well(0, 1), events{a}, lead, late)...),
		"two requests of one session end":    script(a, told(8, 5, history.ChangeWithdrawn, 0, 0), told(8, 5, history.ChangeWithdrawn, 0, 0)),
	} {
		accepted(t, name, h)
	}
}

func TestWhatIsToldAddsUpAndAgreesWithReads(t *testing.T) {
	t.Parallel()
	a, b := watching(8, "lock"), watching(8, "{t}")
	granted, released, queued := history.ChangeGranted, history.ChangeReleased, history.ChangeQueued
	const leads = history.ChangeLeader
	elect := func(e history.Event) history.Event { e.Election = true; return e }
	lead := events{ask(1, 0), grant(1, 0, 10), told(8, 5, granted, 1, 10)}
	look := func(seen ...uint64) events {
		return events{op(7, on(history.Look, 1, 0)), tokens(op(7, on(history.Looked, 1, 0)), seen...)}
	}
	after := events{ask(2, 1), told(8, 7, queued, 2, 0), ask(3, 1), told(8, 8, queued, 3, 0)}
	for _, c := range []rejected{
		{"what is told adds up", script(join(events{a}, lead, events{ask(2, 1), told(8, 6, granted, 2, 11)})...)},
		{"what is told adds up", script(join(events{a}, lead, events{told(8, 6, released, 1, 10), told(8, 7, history.ChangeLost, 1, 10)})...)},
		{"waiters are served in order", script(a, ask(1, 0), ask(2, 1), told(8, 5, queued, 1, 0), told(8, 6, queued, 2, 0), told(8, 7, granted, 2, 10))},
		{"waiters are served in order", script(a, ask(1, 0), ask(2, 1), told(8, 5, queued, 1, 0), told(8, 7, granted, 2, 10))},
		{"waiters are served in order", script( // a set that waits elsewhere is passed in none of its names
			b, set(1, 0), named("{t}b", ask(2, 1)), named("{t}a", told(8, 5, queued, 1, 0)), named("{t}b", told(8, 5, queued, 1, 0)),
			named("{t}b", told(8, 6, granted, 2, 10)))},
		{"a set is never held in part", script(b, set(1, 0), named("{t}a", grant(1, 0, 10)), named("{t}a", told(8, 5, granted, 1, 10)),
			named("{t}b", told(8, 6, granted, 1, 10)), named("{t}c", told(8, 7, queued, 4, 0)))},
		{"a set is never held in part", script(b, set(1, 0), named("{t}a", grant(1, 0, 10)), named("{t}a", told(8, 5, granted, 1, 10)), named("{t}c", told(8, 7, queued, 4, 0)))},
		{"a watch tells who leads", script(join(events{a, elect(ask(1, 0))}, lead[1:], after)...)},
		{"a watch tells who leads", script(join(events{a, elect(ask(1, 0))}, lead[1:], events{told(8, 5, leads, 0, 9)})...)},
		{"a watch tells who leads", script(join(events{a, elect(ask(1, 0))}, lead[1:], events{told(8, 5, leads, 0, 10), told(8, 6, released, 1, 10)}, after)...)},
		{"a watch tells who leads", script(join(events{a, elect(ask(1, 0))}, lead[1:], events{told(8, 5, leads, 0, 10), told(8, 6, leads, 0, 0)})...)},
		{"reads agree with what is told", script(join(events{a}, lead, look(), after)...)},
		{"reads agree with what is told", script(join(events{a}, lead, events{told(8, 6, released, 1, 10)}, look(10), after)...)},
	} {
		c.check(t)
	}
	for name, h := range map[string][]history.Event{
		"a read of what is told later": script(join(events{a}, lead, look(), events{told(8, 6, released, 1, 10)}, after)...),
		"a leader and a vacancy": script(join(events{a, told(8, 3, released, 9, 4), told(8, 3, leads, 0, 0), elect(ask(1, 0))}, lead[1:],
			events{told(8, 5, leads, 0, 10), told(8, 6, released, 1, 10), told(8, 6, leads, 0, 0)}, after)...),
		"a read of what is told":          script(join(events{a}, lead, look(10), events{told(8, 6, released, 1, 10)}, after)...),
		"a hand-over by one command":      script(join(events{a}, lead, events{ask(2, 1), told(8, 6, queued, 2, 0), told(8, 7, released, 1, 10), told(8, 7, granted, 2, 11)}, look(11))...),
		"a higher priority passes":        script(a, ask(1, 0), with(ask(2, 1), func(e *history.Event) { e.Priority = 1 }), told(8, 5, queued, 1, 0), told(8, 6, queued, 2, 0), told(8, 7, granted, 2, 10)),
		"who waits no more is not passed": script(a, ask(1, 0), ask(2, 1), told(8, 5, queued, 1, 0), told(8, 6, history.ChangeWithdrawn, 1, 0), told(8, 7, granted, 2, 10)),
	} {
		accepted(t, name, h)
	}
}
