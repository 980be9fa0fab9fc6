package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sim/internal/history"
)

// byRight is the rule that most histories of two holders break as well.
const byRight = "a grant ends by right"

// but leaves out what follows from two holders.
func but(rule string, found []history.Violation) []history.Violation {
	return slices.DeleteFunc(found, func(v history.Violation) bool { return v.Rule == byRight && rule != byRight })
}

func revokes(kind history.Kind, id string) history.Event { return history.Event{Kind: kind, Value: id} }

// lasting asks for a lock with a TTL of ten minutes, is granted it, and has nine left.
func lasting() events {
	return events{
		value("id", on(history.Opened, 0, 0)),
		with(ask(1, 0), func(e *history.Event) { e.TTL = 10 * time.Minute }), grant(1, 0, 10),
		with(held(0, 10), func(e *history.Event) { e.Remaining = 9 * time.Minute }),
	}
}

func TestAGrantThatNobodyHadTheRightToEndIsRefused(t *testing.T) {
	t.Parallel()
	next := events{ask(2, 1), at(time.Minute, grant(2, 1, 11))}
	lost := events{watching(8, "lock"), at(time.Minute, told(8, 5, history.ChangeLost, 1, 10))}
	for _, c := range []rejected{
		{byRight, script(join(lasting(), next)...)}, // its node was silent, or removed
		{byRight, script(join(lasting(), lost)...)},
		{byRight, script(join(lasting(), events{on(history.Dies, 0, 0)}, next)...)},
		{byRight, script(join(lasting(), events{on(history.Dies, 0, 0), with(expired(0, 10), func(e *history.Event) { e.Cause = "closed" })}, lost)...)}, // the dead say nothing
		{byRight, script(join(lasting(), events{on(history.Dies, 0, 0), on(history.Closes, 0, 0)}, next)...)},
		{byRight, script(join(lasting(), events{on(history.Dies, 0, 0), on(history.Opens, 0, 0)}, next)...)},     // in another boot
		{byRight, script(join(lasting(), events{on(history.Dies, 0, 0), ok(on(history.Opens, 3, 0))}, next)...)}, // another node
		{byRight, script(join(lasting(), events{revokes(history.Revoke, "other")}, next)...)},
		{byRight, script(join(events{op(7, revokes(history.Revoke, "id")), ok(op(7, revokes(history.Revoked, "id")))}, lasting(), next)...)},
		{byRight, script(join(lasting(), events{watching(8, "lock"), at(9*time.Minute, told(8, 5, history.ChangeExpired, 1, 10)), held(0, 10)})...)},
	} {
		found := history.Check(c.h, bounds())
		if len(found) != 1 || found[0].Rule != c.rule {
			t.Errorf("%s: found %v in\n%s", c.rule, found, text(c.h))
		}
	}
}

func TestWhoHasTheRightMayEndAGrantBeforeItsTime(t *testing.T) {
	t.Parallel()
	next := events{ask(2, 1), at(time.Minute, grant(2, 1, 11)), held(1, 11)}
	asked, granted := lasting()[:2], lasting()[2:]
	accepted(t, "an operator who was not answered", script(join(events{op(7, revokes(history.Revoke, "id")), op(7, revokes(history.Revoked, "id"))}, lasting(), next)...))
	accepted(t, "an operator whose act is carried out after a later one", script(join(
		events{op(7, revokes(history.Revoke, "id")), op(8, revokes(history.Revoke, "id")), ok(op(8, revokes(history.Revoked, "id")))},
		asked, granted, events{ok(op(7, revokes(history.Revoked, "id")))}, next)...))
	accepted(t, "an operator meanwhile", script(join(events{op(7, revokes(history.Revoke, "id"))}, asked, events{ok(op(7, revokes(history.Revoked, "id")))}, granted, next)...))
	for name, by := range map[string]events{
		"its holder":                    {on(history.Release, 0, 10)},
		"its process, which lost it":    {with(expired(0, 10), func(e *history.Event) { e.Cause = "the process has failed" })},
		"its process, which closes":     {on(history.Closes, 0, 0)},
		"the next process on its disk":  {on(history.Dies, 0, 0), ok(on(history.Opens, 0, 0))},
		"an operator, of the grant":     {op(7, on(history.Force, 1, 10))},
		"an operator, of the node":      {op(7, revokes(history.Revoke, "id"))},
		"an operator, of the dead node": {on(history.Dies, 0, 0), op(7, revokes(history.Revoke, "id"))},
	} {
		accepted(t, name, script(join(lasting(), by, next)...))
	}
	accepted(t, "its time", script(join(lasting(), events{on(history.Dies, 0, 0), ask(2, 1), at(9*time.Minute, grant(2, 1, 11))})...))
	accepted(t, "who shares it ends nothing", script(lasting()[0], permit(1, 2, lasting()[1]), lasting()[2], lasting()[3], permit(1, 2, ask(2, 1)), grant(2, 1, 11)))
}

// An operator has said that the node must be taken for dead: two may believe that they hold, and
// what it held is over for everybody who asks later.
func TestWhatAnOperatorHasRevokedIsOverForTheGroup(t *testing.T) {
	t.Parallel()
	revoked := events{op(7, revokes(history.Revoke, "id")), ok(op(7, revokes(history.Revoked, "id")))}
	still := with(held(0, 10), func(e *history.Event) { e.Remaining = 8 * time.Minute })
	accepted(t, "two believe", script(join(lasting(), revoked, events{ask(2, 1), grant(2, 1, 11), held(1, 11), still, held(1, 11)})...))
	accepted(t, "what it is granted later is its own", script(join(lasting()[:2], revoked, lasting()[2:], events{
		op(9, on(history.Verify, 1, 10)), ok(op(9, on(history.Verified, 1, 10)))})...))
	asked := join(well(0, 1, 2), events{value("id", on(history.Opened, 0, 0)), ask(1, 0), ask(2, 1), queue(on(history.Looked, 0, 0), 1, 2)})
	accepted(t, "who is revoked loses its place", script(join(asked, revoked, events{grant(2, 1, 10)})...))
	rejected{"waiters are served in order", script(join(asked[:5], revoked, asked[5:], events{grant(2, 1, 10)})...)}.check(t)
	rejected{"reads are current", script(join(lasting(), revoked, events{op(9, on(history.Verify, 1, 10)), ok(op(9, on(history.Verified, 1, 10)))})...)}.check(t)
	rejected{"mutual exclusion", script(join(lasting(), revoked, events{ask(2, 1), grant(2, 1, 11), held(1, 11), ask(3, 2), grant(3, 2, 12),
		held(2, 12), held(1, 11)})...)}.check(t)
}
