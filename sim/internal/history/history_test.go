package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

const (
	node0 = iota
	node1
	node2
)

func bounds() history.Bounds {
	return history.Bounds{TTL: 5 * time.Second, Late: 2 * time.Second, Answer: 100 * time.Millisecond, Resume: 20 * time.Second}
}

// script makes a history in which one second lies between two events, unless they say otherwise.
func script(events ...history.Event) []history.Event {
	now := time.Duration(0)
	for i := range events {
		if e := &events[i]; e.At == 0 {
			e.At = now
		}
		if e := &events[i]; e.Lock == "" && e.Kind != history.Well && e.Kind != history.Ill {
			e.Lock = "lock"
		}
		now = events[i].At + time.Second
	}
	return events
}

func well(nodes ...int) (events []history.Event) {
	for _, n := range nodes {
		events = append(events, history.Event{Kind: history.Well, Node: n})
	}
	return append(events, history.Event{Kind: history.Quorum, OK: true})
}

func ask(op uint64, node int) history.Event {
	return history.Event{Kind: history.Asked, Op: op, Node: node, Wait: true, Weight: 1, Limit: 1, Until: time.Hour}
}

func on(kind history.Kind, node int, token uint64) history.Event {
	return history.Event{Kind: kind, Node: node, Token: token}
}

func grant(op uint64, node int, token uint64) history.Event {
	return history.Event{Kind: history.Granted, Op: op, Node: node, Token: token}
}

func held(node int, token uint64) history.Event {
	return history.Event{Kind: history.Held, Node: node, Token: token, Remaining: 4 * time.Second}
}

func expired(node int, token uint64) history.Event {
	return history.Event{Kind: history.Ended, Node: node, Token: token, Cause: history.CauseExpired}
}

func at(t time.Duration, e history.Event) history.Event { e.At = t; return e }

func with(e history.Event, change func(*history.Event)) history.Event { change(&e); return e }

func ok(e history.Event) history.Event {
	return with(e, func(e *history.Event) { e.OK = true })
}

func op(op uint64, e history.Event) history.Event {
	return with(e, func(e *history.Event) { e.Op = op })
}

func value(v string, e history.Event) history.Event {
	return with(e, func(e *history.Event) { e.Value = v })
}

func other(e history.Event) history.Event { e.Lock = "other"; return e }

func queue(e history.Event, ops ...uint64) history.Event {
	return with(e, func(e *history.Event) { e.Queue = ops })
}

func permit(weight, limit int, e history.Event) history.Event {
	return with(e, func(e *history.Event) { e.Weight, e.Limit = weight, limit })
}

// good is a history in which everything happens and nothing is wrong.
func good() []history.Event {
	h := well(node0, node1, node2)
	h = append(h, ask(1, node0), grant(1, node0, 10), held(node0, 10), ask(2, node1), ask(3, node2),
		queue(on(history.Looked, node0, 0), 2, 3),
		op(20, value("a", on(history.Set, node0, 10))), ok(op(20, on(history.Done, node0, 10))),
		op(21, on(history.Verify, node1, 10)), ok(op(21, on(history.Verified, node1, 10))), held(node0, 10),
		op(22, on(history.Look, node1, 0)), value("a", op(22, on(history.Looked, node1, 0))),
		on(history.Release, node0, 10), on(history.Released, node0, 10),
		grant(2, node1, 11), held(node1, 11), on(history.Ended, node0, 10),
		op(23, on(history.Verify, node1, 10)), op(23, on(history.Verified, node1, 10)),
		held(node1, 11), on(history.Ill, node1, 0), at(31*time.Second, expired(node1, 11)),
		grant(3, node2, 12), held(node2, 12),
		on(history.Over, 0, 0), on(history.Well, node1, 0), held(node2, 12),
		on(history.Served, node0, 0), on(history.Served, node1, 0), on(history.Served, node2, 0))
	return script(h...)
}

func TestAGoodHistoryHasNoViolations(t *testing.T) {
	t.Parallel()
	for _, v := range history.Check(good(), bounds()) {
		t.Error(v)
	}
}

func TestEachCheckRejectsItsHistory(t *testing.T) {
	t.Parallel()
	join := func(a []history.Event, b ...history.Event) []history.Event { return append(a, b...) }
	for _, c := range []struct {
		rule string
		h    []history.Event
	}{
		{"mutual exclusion", script(ask(1, 0), grant(1, 0, 10), held(0, 10), ask(2, 1), grant(2, 1, 11), held(1, 11), held(0, 10))},
		{"mutual exclusion", script( // five permits of four
			permit(2, 4, ask(1, 0)), grant(1, 0, 10), held(0, 10), permit(3, 4, ask(2, 1)), grant(2, 1, 11), held(1, 11), held(0, 10))},
		{"tokens are unique", script(ask(1, 0), grant(1, 0, 10), other(ask(2, 1)), other(grant(2, 1, 10)))},
		{"tokens rise", script(ask(1, 0), grant(1, 0, 10), ask(2, 1), grant(2, 1, 9))},
		{"no grant is forgotten", script(ask(1, 0), grant(1, 0, 10), held(0, 10),
			op(5, on(history.Verify, 1, 10)), op(5, on(history.Verified, 1, 10)), held(0, 10))},
		{"reads are current", script(ask(1, 0), grant(1, 0, 10), on(history.Release, 0, 10), on(history.Released, 0, 10),
			op(5, on(history.Verify, 1, 10)), ok(op(5, on(history.Verified, 1, 10))))},
		{"reads are current", script(ask(1, 0), grant(1, 0, 10), ask(2, 1), grant(2, 1, 11),
			op(5, on(history.Verify, 1, 10)), ok(op(5, on(history.Verified, 1, 10))))},
		{"no lease ends early", script(ask(1, 0), grant(1, 0, 10), held(0, 10), expired(0, 10))},
		{"no healthy holder loses", script(join(well(0, 1, 2), ask(1, 0), grant(1, 0, 10), held(0, 10),
			at(20*time.Second, expired(0, 10)))...)},
		{"waiters are served in order", script(join(well(0, 1, 2), ask(1, 0), ask(2, 1), queue(on(history.Looked, 0, 0), 1, 2),
			grant(2, 1, 10))...)},
		{"waiters are served in order", script(join(well(0, 1, 2), ask(1, 0), ask(2, 1), queue(on(history.Looked, 0, 0), 1, 2),
			grant(2, 1, 10), on(history.Release, 1, 10), grant(1, 0, 11))...)},
		{"calls answer in time", script(with(ask(1, 0), func(e *history.Event) { e.Until = 3 * time.Second }), at(4*time.Second, with(grant(1, 0, 10), func(e *history.Event) { e.Until = 4 * time.Second })))},
		{"calls answer in time", script(with(ask(1, 0), func(e *history.Event) { e.Until = 3 * time.Second }), at(4*time.Second, on(history.Look, 0, 0)))},
		{"a dead holder's lock is granted in time", script(join(well(0, 1, 2), ask(1, 0), grant(1, 0, 10), held(0, 10), ask(2, 1),
			on(history.Ill, 0, 0), at(18*time.Second, grant(2, 1, 11)))...)},
		{"a dead holder's lock is granted in time", script(join(well(0, 1, 2), ask(1, 0), // an election is no excuse
			at(9*time.Second, on(history.Ill, 2, 0)), at(13*time.Second, grant(1, 0, 11)))...)},
		{"a dead holder's lock is granted in time", script(join(well(0, 1, 2), ask(1, 0), grant(1, 0, 10), on(history.Release, 0, 10),
			held(0, 10), ask(2, 1), at(18*time.Second, grant(2, 1, 11)))...)}, // seen valid while its release was under way
		{"service resumes after the faults", script(join(well(0, 1), on(history.Over, 0, 0), on(history.Served, 0, 0))...)},
		{"service resumes after the faults", script(join(well(0), on(history.Over, 0, 0), at(time.Minute, on(history.Served, 0, 0)))...)},
		{"values are what was written", script(op(5, on(history.Look, 0, 0)), value("a", op(5, on(history.Looked, 0, 0))))},
		{"values are current", script(op(1, value("a", on(history.Set, 0, 10))), ok(op(1, on(history.Done, 0, 10))),
			op(5, on(history.Look, 0, 0)), op(5, on(history.Looked, 0, 0)))},
		{"values are current", script(op(1, value("a", on(history.Set, 0, 10))), ok(op(1, on(history.Done, 0, 10))),
			op(2, value("b", on(history.Set, 0, 10))), ok(op(2, on(history.Done, 0, 10))),
			op(5, on(history.Look, 0, 0)), value("a", op(5, on(history.Looked, 0, 0))))},
		{"values are current", script(op(1, value("a", on(history.Set, 0, 10))), // in doubt, and read, and then not
			op(5, on(history.Look, 0, 0)), value("a", op(5, on(history.Looked, 0, 0))), op(6, on(history.Look, 0, 0)), op(6, on(history.Looked, 0, 0)))},
		{"values are current", script(op(1, value("a", on(history.Set, 0, 10))), // in doubt, and read, and overwritten
			op(5, on(history.Look, 0, 0)), value("a", op(5, on(history.Looked, 0, 0))),
			op(2, value("b", on(history.Set, 0, 10))), ok(op(2, on(history.Done, 0, 10))),
			op(6, on(history.Look, 0, 0)), value("a", op(6, on(history.Looked, 0, 0))))},
		{"a finished key is not run again", script(on(history.Begun, 0, 10), ok(on(history.Finished, 0, 10)), on(history.Begun, 1, 11))},
		{"runs of a key have rising tokens", script(on(history.Begun, 0, 10), on(history.Begun, 1, 10))},
		{"runs of a key have rising tokens", script(on(history.Begun, 1, 11), on(history.Begun, 0, 10), on(history.Force, 1, 10))},
		{"a run that was given up does not finish", script(on(history.Begun, 0, 10), on(history.Begun, 1, 11), ok(on(history.Finished, 0, 10)))},
	} {
		found := but(c.rule, history.Check(c.h, bounds()))
		if len(found) != 1 || found[0].Rule != c.rule {
			t.Errorf("%s: found %v in\n%s", c.rule, found, text(c.h))
		}
	}
}

func text(h []history.Event) string {
	var b strings.Builder
	for _, e := range h {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

func TestWhatMayBeIsNoViolation(t *testing.T) {
	t.Parallel()
	join := func(a []history.Event, b ...history.Event) []history.Event { return append(a, b...) }
	for name, h := range map[string][]history.Event{
		"readers share": script(permit(1, 8, ask(1, 0)), grant(1, 0, 10), held(0, 10), permit(1, 8, ask(2, 1)), grant(2, 1, 11), held(1, 11), held(0, 10)),
		"a token that nobody lived to tell of": script(on(history.Verify, 1, 12), ok(on(history.Verified, 1, 12)),
			on(history.Verify, 1, 12), on(history.Verified, 1, 12)),
		"answers cross": script(ask(1, 0), ask(2, 1), grant(2, 1, 11), on(history.Release, 1, 11), grant(1, 0, 10)),
		"a write in doubt is read, or not": script(op(1, value("a", on(history.Set, 0, 10))), op(1, on(history.Done, 0, 10)),
			op(5, on(history.Look, 0, 0)), op(5, on(history.Looked, 0, 0)), op(6, on(history.Look, 0, 0)), value("a", op(6, on(history.Looked, 0, 0)))),
		"an ill waiter is overtaken": script(join(well(0, 1, 2), ask(1, 0), ask(2, 1), queue(on(history.Looked, 0, 0), 1, 2),
			on(history.Ill, 0, 0), grant(2, 1, 10))...),
		"a holder that is ill holds on": script(join(well(0, 1, 2), ask(1, 0), grant(1, 0, 10), held(0, 10), ask(2, 1), on(history.Ill, 0, 0),
			at(11*time.Second, held(0, 10)), at(16*time.Second, grant(2, 1, 11)))...),
		"a key is run again when its runner died, and when it was forgotten": script(on(history.Begun, 0, 10), on(history.Begun, 1, 11),
			on(history.Finished, 0, 10), with(ok(on(history.Finished, 1, 11)), func(e *history.Event) { e.Until = time.Minute }),
			at(time.Minute, on(history.Begun, 1, 12)), other(on(history.Begun, 0, 13))),
		"a stopped runner begins after an operator took its grant": script(on(history.Force, 1, 10), on(history.Begun, 1, 11), on(history.Begun, 0, 10)),
		"nobody is late without a quorum": script(join(well(0, 1, 2), ask(1, 0), history.Event{Kind: history.Quorum},
			at(30*time.Second, history.Event{Kind: history.Quorum, OK: true}), grant(1, 0, 10))...),
		"a release ends a lease before its time": script(ask(1, 0), grant(1, 0, 10), held(0, 10), on(history.Release, 0, 10),
			with(expired(0, 10), func(e *history.Event) { e.Cause = history.CauseReleased })),
	} {
		if found := history.Check(h, bounds()); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
