package fsm

import (
	"testing"
	"time"
)

// Which answer means that the session is open, and which that the request is over, was decided in
// five places, by lists of codes. Most refusals were in none: each left an open session behind of
// which its node did not know.
func TestTheAnswerToAnAcquireSaysWhatItHasLeft(t *testing.T) {
	t.Parallel()
	seen := make(map[Code]bool)
	for code, drive := range leaving() {
		for _, again := range []bool{false, true} { // the first call of its session, or a later one
			b := newBench(t)
			if again {
				b.must(acquire(100, "first"), CodeGranted)
			}
			c, open := drive(b, again)
			b.must(c, code)
			seen[code] = true
			wantOpen, wantState := code.Left()
			_, isOpen := b.m.Session(c.Session)
			isState, _ := b.m.Request(c.Session, c.Request)
			if isOpen != (wantOpen || open) || isState != wantState {
				t.Errorf("%v, later %v: the session is open: %v, the request %v; Left says %v, %v", code, again, isOpen, isState, wantOpen, wantState)
			}
		}
	}
	for code := range codeEnd {
		if open, state := code.Left(); !seen[code] && !notOfAcquire[code] {
			t.Errorf("no Acquire is answered %v, of which Left says %v, %v", code, open, state)
		}
	}
}

// notOfAcquire are the codes that no Acquire is answered.
var notOfAcquire = map[Code]bool{
	CodeOK: true, CodeNotHeld: true, CodeStaleToken: true, CodeTooManyNodes: true, CodeTooOld: true, CodeUnsupported: true,
	CodeForbidden: true, CodeLater: true, CodeTooManyResized: true, CodeTooManyQuotas: true,
}

// leaving makes for each code an Acquire that will be answered it, and says whether its session
// stays open although the answer cannot say so.
func leaving() map[Code]func(b *bench, again bool) (c Acquire, open bool) {
	other := func(request uint64, name string) Acquire {
		c := acquire(request, name)
		c.Session = sessionOf('b', 1)
		return c
	}
	after := func(c Acquire, prepare func(b *bench)) func(*bench, bool) (Acquire, bool) {
		return func(b *bench, _ bool) (Acquire, bool) { prepare(b); return c, false }
	}
	fresh := acquire(1, "x")
	fresh.Session.Number = 2 // which is not open
	try := func(name string) Acquire { c := acquire(1, name); c.Wait = false; return c }
	shared := func(c Acquire) Acquire { c.Mode = Shared; return c }
	permit := func(c Acquire, limit uint32) Acquire { c.Mode, c.Limit = Permit, limit; return c }
	return map[Code]func(b *bench, again bool) (Acquire, bool){
		CodeGranted: after(acquire(1, "x"), func(*bench) {}),
		CodeQueued:  after(acquire(1, "x"), func(b *bench) { b.must(other(1, "x"), CodeGranted) }),
		CodeHeld:    after(try("x"), func(b *bench) { b.must(other(1, "x"), CodeGranted) }),
		CodeFinished: after(acquire(1, "x"), func(b *bench) {
			b.must(acquire(2, "y"), CodeGranted)
			b.must(Withdraw{Session: sessionOf('a', 1), Requests: []uint64{1}}, CodeOK)
		}),
		CodeLimitMismatch: after(permit(acquire(1, "x"), 2), func(b *bench) { b.must(permit(other(1, "x"), 3), CodeGranted) }),
		CodeDeadlock: func(b *bench, _ bool) (Acquire, bool) {
			mine := b.must(acquire(2, "y"), CodeGranted).Token
			theirs := other(1, "x")
			its := b.must(theirs, CodeGranted).Token
			theirs.Request, theirs.Name, theirs.While = 2, "y", []uint64{its}
			b.must(theirs, CodeQueued)
			c := acquire(1, "x")
			c.While, c.Refuse = []uint64{mine}, true
			return c, false
		},
		CodeDone: after(acquire(1, OnceName("k")), func(b *bench) {
			token := b.must(other(1, OnceName("k")), CodeGranted).Token
			b.must(Finish{Session: sessionOf('b', 1), Name: OnceName("k"), Token: token, Keep: time.Hour}, CodeOK)
		}),
		CodeTokensExhausted: after(acquire(1, "x"), func(b *bench) { b.m.limits.token = b.m.counter }),
		CodeTooManyLocks:    after(acquire(1, "x"), func(b *bench) { b.m.limits.locks = b.m.locks.Len() }),
		CodeTooManyWaiters: after(acquire(1, "x"), func(b *bench) {
			b.must(other(1, "x"), CodeGranted)
			b.m.limits.waiters = 0
		}),
		CodeTooManyHolders: after(shared(acquire(1, "x")), func(b *bench) {
			b.must(shared(other(1, "x")), CodeGranted)
			b.m.limits.holders = 1
		}),
		CodeTooManyKeys: after(acquire(1, OnceName("k")), func(b *bench) { b.m.limits.keys = 0 }),
		CodeValuesFull: after(func() Acquire { c := acquire(1, "x"); c.HasValue, c.Value = true, []byte("v"); return c }(),
			func(b *bench) { b.m.limits.values = 0 }),
		CodeTooManyRequests: after(acquire(1, "x"), func(b *bench) { b.m.limits.spansTotal = b.m.finished.tree.Len() }),
		CodeTooManySessions: after(fresh, func(b *bench) { b.m.limits.sessions = b.m.sessions.Len() }),
		CodeOverQuota:       after(acquire(1, "xy"), func(b *bench) { b.must(acquireOf('b', "xz"), CodeGranted); quota(b, Quota{Prefix: "x", Locks: 1}) }),
		CodeSessionsOverQuota: after(fresh, func(b *bench) {
			b.must(acquire(9, "y"), CodeGranted)
			quota(b, Quota{Sessions: 1})
		}),
		CodeSessionLost:      after(acquire(1, "x"), func(b *bench) { b.must(CloseSession{Session: sessionOf('a', 1)}, CodeOK) }),
		CodeStaleIncarnation: after(fresh, func(b *bench) { b.must(Hello{Node{'a'}, 2, "alpha", Place{}, 0}, CodeOK) }),
		CodeUnknownNode:      after(func() Acquire { c := acquire(1, "x"); c.Session.Incarnation = 2; return c }(), func(*bench) {}),
		CodeNotServing: after(acquire(1, "x"), func(b *bench) {
			b.m = New()
			b.must(Birth{Cluster: [16]byte{1}}, CodeOK)
			b.must(Hello{Node{'a'}, 1, "alpha", Place{}, 0}, CodeOK)
		}),
		CodeInvalid: func(_ *bench, again bool) (Acquire, bool) { return acquire(1, ""), again },
	}
}
