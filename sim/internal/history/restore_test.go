package history_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

func copied() history.Event { return op(50, history.Event{Kind: history.Copied}) }

func restored() history.Event { return op(50, history.Event{Kind: history.Restored}) }

// wentBack ends all three nodes, takes them back, and opens them again.
func wentBack() events {
	return events{
		on(history.Dies, node0, 0), on(history.Dies, node1, 0), on(history.Dies, node2, 0), restored(),
		on(history.Opens, node0, 0), on(history.Opens, node1, 0), on(history.Opens, node2, 0),
	}
}

// What the group did after the backup was made it has forgotten, and what it had undone by then it
// has again.
func TestARestoreForgetsWhatCameAfterTheBackup(t *testing.T) {
	t.Parallel()
	verify := func(o uint64, token uint64) events {
		return events{op(o, on(history.Verify, 1, token)), ok(op(o, on(history.Verified, 1, token)))}
	}
	write := func(o uint64, v string) events {
		return events{op(o, value(v, on(history.Set, 0, 10))), ok(op(o, on(history.Done, 0, 10)))}
	}
	read := func(o uint64, v string) events {
		return events{op(o, on(history.Look, 1, 0)), value(v, op(o, on(history.Looked, 1, 0)))}
	}
	first := events{ask(1, 0), grant(1, 0, 10), held(0, 10)}
	release := events{on(history.Release, 0, 10), on(history.Released, 0, 10)}
	watch := events{watching(8, "lock"), told(8, 5, history.ChangeGranted, 1, 10)}
	again := events{watching(60, "lock"), told(60, 6, history.ChangeExpired, 1, 10)}
	long := with(held(0, 11), func(e *history.Event) { e.Remaining = 9 * time.Minute })
	for name, h := range map[string]events{
		"a grant that was released holds again":     script(join(first, events{copied()}, release, wentBack(), verify(60, 10))...),
		"a value that was overwritten is read":      script(join(first, write(2, "a"), events{copied()}, write(3, "b"), wentBack(), read(60, "a"))...),
		"a finished key runs again":                 script(join(events{copied(), on(history.Begun, 0, 10), ok(on(history.Finished, 0, 10))}, wentBack(), events{on(history.Begun, 1, 11)})...),
		"an index is told of anew":                  script(join(first[:2], watch, events{copied(), told(8, 6, history.ChangeReleased, 1, 10)}, wentBack(), again)...),
		"a long lease is forgotten with its holder": script(join(events{copied(), with(ask(2, 0), func(e *history.Event) { e.TTL = 10 * time.Minute }), grant(2, 0, 11), long}, wentBack(), events{ask(60, 1), grant(60, 1, 12), held(1, 12)})...),
		"a call may have been carried out or not":   script(join(first, events{copied()}, release, wentBack(), events{ask(60, 1), grant(60, 1, 12), held(1, 12)})...),
		"the dead say late that it is over":         script(join(first, events{copied()}, wentBack(), events{expired(0, 10)})...),
		"it goes back twice": script(join(first, events{copied()}, release, wentBack(), events{op(61, history.Event{Kind: history.Copied}),
			ask(62, 1), grant(62, 1, 12), on(history.Release, 1, 12), on(history.Released, 1, 12), on(history.Dies, 1, 0),
			op(61, history.Event{Kind: history.Restored})}, verify(63, 10))...),
	} {
		accepted(t, name, h)
	}
}

func TestARestoreExcusesNothingElse(t *testing.T) {
	t.Parallel()
	first := events{ask(1, 0), grant(1, 0, 10), held(0, 10)}
	verify := events{op(60, on(history.Verify, 1, 10)), ok(op(60, on(history.Verified, 1, 10)))}
	look := events{op(60, on(history.Look, 1, 0)), value("b", op(60, on(history.Looked, 1, 0)))}
	release := events{on(history.Release, 0, 10), on(history.Released, 0, 10)}
	late := with(held(0, 10), func(e *history.Event) { e.Remaining = time.Second })
	for _, c := range []rejected{
		{"tokens are unique", script(join(events{copied()}, first, wentBack(), events{other(ask(60, 1)), other(grant(60, 1, 10))})...)},
		{"tokens rise", script(join(events{copied()}, first, wentBack(), events{ask(60, 1), grant(60, 1, 9)})...)},
		{"mutual exclusion", script(join(first, events{copied()}, wentBack(), events{ask(60, 1), grant(60, 1, 11), held(1, 11), late, held(1, 11)})...)},
		{"reads are current", script(join(first, release, events{copied()}, wentBack(), verify)...)},
		{"values are what was written", script(join(first, events{copied(), op(3, value("b", on(history.Set, 0, 10))), ok(op(3, on(history.Done, 0, 10)))},
			wentBack(), look)...)},
		{"no grant is forgotten", script(join(first, events{op(5, on(history.Verify, 1, 10)), op(5, on(history.Verified, 1, 10)), held(0, 10), copied()}, wentBack())...)},
		{"no grant is forgotten", script(join(first, events{copied(), op(5, on(history.Verify, 1, 10)), op(5, on(history.Verified, 1, 10)), held(0, 10)}, wentBack())...)},
		{"a finished key is not run again", script(join(events{on(history.Begun, 0, 10), ok(on(history.Finished, 0, 10)), copied()}, wentBack(), events{on(history.Begun, 1, 11)})...)},
	} {
		found := but(c.rule, history.Check(c.h, bounds()))
		if len(found) != 1 || found[0].Rule != c.rule {
			t.Errorf("%s: found %v in\n%s", c.rule, found, text(c.h))
		}
	}
}
