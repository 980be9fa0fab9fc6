package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// No command takes away more than its bound, whatever ends, and however much of it there is: each
// Apply holds up everybody.
func TestNoCommandTakesAwayMoreThanItsBound(t *testing.T) {
	t.Parallel()
	const locks = 3000
	place := Place{"boot", 1, 2}
	for name, end := range map[string]Command{
		"a session is closed":        CloseSession{Session: sessionOf('a', 1)},
		"a release closes it":        Release{Session: sessionOf('a', 1), Close: true},
		"a session expires":          Expire{sessionOf('a', 1), 5},
		"a successor proves itself":  Hello{Node{'a'}, 2, "alpha", place, 0},
		"a node leaves":              Goodbye{Node{'a'}, 1, Gone},
		"an operator revokes":        Revoke{Node{'a'}, 1 << 40, "burnt"},
		"a node is superseded":       Hello{Node{'b'}, 2, "beta", Place{}, 0},
		"a node is removed":          Remove{Node{'b'}, 1, 4},
		"a later process is unknown": Goodbye{Node{'b'}, 2, Leaves},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for i := range uint64(locks) {
				c := acquire(i+1, fmt.Sprint("lock ", i))
				b.must(c, CodeGranted)
				c.Session = sessionOf('b', i%500+1)
				b.must(c, CodeQueued)
			}
			before := b.m.Info()
			for cmd, left := end, true; left; {
				_, events := b.m.Apply(b.m.Applied()+1, ProcessOf(cmd), Encode(cmd))
				ended := 0
				for _, e := range events {
					switch e.Kind {
					case EventReleased, EventLost, EventForced, EventWithdrawn, EventSessionEnded:
						ended++
					}
				}
				if ended > stepMax+1 || len(events) > 3*stepMax {
					t.Fatalf("%T ended %d, with %d events", cmd, ended, len(events))
				}
				var last uint64
				last, left = b.m.Unfinished()
				cmd = Continue{last}
			}
			if err := b.m.Check(); err != nil {
				t.Fatal(err)
			}
			if i := b.m.Info(); i.Waiters != 0 || i.Grants != before.Grants || b.m.requests.Len() != locks {
				t.Errorf("in the end %+v", i)
			}
		})
	}
}

// A single lock can have a crowd: readers behind a writer, callers that wait for a key that
// somebody else runs.
func TestACrowdIsServedOrSentAwayInStepsAndInOrder(t *testing.T) {
	t.Parallel()
	const crowd = 3000
	for _, name := range []string{"x", OnceName("k")} {
		b := newBench(t)
		token := b.must(acquire(1, name), CodeGranted).Token
		c := acquire(0, name)
		if c.Session = sessionOf('b', 1); !isOnce(name) {
			c.Mode = Shared
		}
		for range uint64(crowd) {
			c.Request++
			b.must(c, CodeQueued)
		}
		var cmd Command = Release{Session: sessionOf('a', 1), Grants: []Grant{{name, token}}}
		want := EventGranted
		if isOnce(name) {
			cmd, want = Finish{Session: sessionOf('a', 1), Name: name, Token: token, Keep: time.Hour}, EventWithdrawn
		}
		next := uint64(1)
		for left := true; left; {
			_, events := b.m.Apply(b.m.Applied()+1, ProcessOf(cmd), Encode(cmd))
			if len(events) > stepMax+2 {
				t.Fatalf("%q: %T brings %d events", name, cmd, len(events))
			}
			for _, e := range events {
				if e.Kind == want && e.Request != next {
					t.Fatalf("%q: %v of request %d before that of %d", name, e.Kind, e.Request, next)
				} else if e.Kind == want {
					next++
				}
			}
			late := acquire(next+crowd, name)
			late.Wait, late.Mode = false, c.Mode
			var last uint64
			if last, left = b.m.Unfinished(); left && isOnce(name) {
				b.must(late, CodeDone)
			} else if left {
				b.must(late, CodeHeld) // nobody passes them by
			}
			cmd = Continue{last}
		}
		if next != crowd+1 || b.m.Info().Waiters != 0 {
			t.Errorf("%q: %d of %d, %+v", name, next-1, crowd, b.m.Info())
		}
		if err := b.m.Check(); err != nil {
			t.Error(err)
		}
	}
}

// The memory of finished requests goes with its session, in steps like the rest.
func TestTheFinishedRequestsOfASessionGoInSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const runs = 3 * stepMax * costOfClaim
	b.must(acquire(1, "x"), CodeGranted)
	for i := range uint64(runs / ListMax) {
		c := Withdraw{Session: sessionOf('a', 1)}
		for j := range uint64(ListMax) {
			c.Requests = append(c.Requests, 10+2*(ListMax*i+j))
		}
		b.must(c, CodeOK)
	}
	b.must(CloseSession{Session: sessionOf('a', 1)}, CodeOK)
	if n := b.m.finished.tree.Len(); n < runs-stepMax*costOfClaim || n == runs {
		t.Errorf("%d of %d runs are left after one step", n, runs)
	}
	if steps := b.goOn(); steps != 3 || b.m.finished.tree.Len() != 0 {
		t.Errorf("%d steps, %d runs left", steps, b.m.finished.tree.Len())
	}
	if i := b.m.Info(); i.Sessions != 0 || i.Locks != 0 {
		t.Errorf("%+v", i)
	}
}

// Two replicas, one of which was restored from a snapshot in the middle of an end, go on alike.
func TestASnapshotBetweenTwoStepsGoesOnWithTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range uint64(2 * stepMax) {
		c := acquire(i+1, fmt.Sprint("lock ", i))
		c.Session.Number = i%3 + 1
		b.must(c, CodeGranted)
	}
	b.must(Hello{Node{'a'}, 2, "alpha", Place{"boot", 1, 2}, 0}, CodeOK)
	restored, err := ReadSnapshot(bytes.NewReader(snapshot(b.m)))
	if err != nil {
		t.Fatal(err)
	}
	other := &bench{t, restored}
	if steps, again := b.goOn(), other.goOn(); steps != again || steps < 2 || !bytes.Equal(snapshot(b.m), snapshot(other.m)) {
		t.Errorf("%d steps, and %d after the snapshot", steps, again)
	}
}

// How a grant ended is known from the command that ended its session on, not only once it is taken
// away.
func TestTheEndOfAGrantIsKnownBeforeItIsTakenAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var tokens []uint64
	for i := range uint64(6) {
		c := acquire(i+1, fmt.Sprint(i))
		c.Session.Number, c.Mode = i/2+1, Mode(i%2)
		tokens = append(tokens, b.must(c, CodeGranted).Token)
	}
	b.m.limits.step = 1
	at := b.m.Commands() + 1
	b.must(Revoke{Node{'a'}, at, "burnt"}, CodeOK)
	for i, token := range tokens {
		end, ok := b.m.EndOf(fmt.Sprint(i), token)
		if !ok || end.Kind != EventForced || end.Reason != ReasonRevoked || end.Detail != "burnt" || end.Ended != at || end.Token != token {
			t.Errorf("lock %d: %+v, %v", i, end, ok)
		}
		if b.m.Granted(fmt.Sprint(i), token) || !b.m.SessionEnded(sessionOf('a', uint64(i/2+1))) {
			t.Errorf("lock %d is held", i)
		}
	}
	c := acquire(1, "9")
	c.Session.Number = 9
	token := b.must(c, CodeGranted).Token
	if _, ok := b.m.EndOf("9", token); ok || !b.m.Granted("9", token) {
		t.Error("a session that was opened since then has ended, too")
	}
}

// A caller that waits for what another session of its own kept until it ended does not wait for
// itself.
func TestWhatHasEndedIsNotWaitedForInACycle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(acquire(1, "first"), CodeGranted)
	own := b.must(acquire(2, "x"), CodeGranted).Token
	again := acquire(1, "x")
	again.Session.Number, again.While, again.Refuse = 2, []uint64{own}, true
	b.must(again, CodeDeadlock)
	b.m.limits.step = 1
	b.must(CloseSession{Session: sessionOf('a', 1)}, CodeOK)
	again.Request++
	b.must(again, CodeQueued)
	b.goOn()
	b.must(again, CodeGranted)
}

// A waiter for something that its holder's dead session keeps waits for nobody: that goes by
// itself.
func TestWhatHasEndedClosesNoCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x, y := acquire(1, "x"), acquire(1, "y")
	y.Session = sessionOf('b', 1)
	own := b.must(x, CodeGranted).Token
	other := b.must(y, CodeGranted).Token
	y.Name, y.Request, y.While = "x", 2, []uint64{other}
	b.must(y, CodeQueued)
	x.Name, x.Request, x.While, x.Refuse = "y", 2, []uint64{own}, true
	b.must(x, CodeDeadlock)
	b.m.limits.step = 1
	spare := acquire(9, "spare")
	spare.Session, spare.TTL = sessionOf('b', 1), 0
	b.must(spare, CodeGranted)
	b.must(CloseSession{Session: sessionOf('b', 1), Lost: true}, CodeOK)
	if _, left := b.m.Unfinished(); !left || len(b.m.Cycles("x")) != 0 {
		t.Fatalf("left %v, cycles %v", left, b.m.Cycles("x"))
	}
	x.Name, x.Request, x.TTL = "spare", 3, time.Second
	b.must(x, CodeQueued)
}

// carriedOn carries out the steps that are left of all ends.
func carriedOn(b *bench) {
	for last, left := b.m.Unfinished(); left; last, left = b.m.Unfinished() {
		b.must(Continue{last}, CodeOK)
	}
}

// An operator's word is about what a node had by then. Its process may live, go on, and end.
func TestARevocationInStepsEndsNoSessionThatWasOpenedAfterIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.Limit(Limits{Step: 1})
	ask := func(number uint64) {
		c := acquire(1, fmt.Sprint("lock ", number))
		c.Session = sessionOf('a', number)
		b.must(c, CodeGranted)
	}
	for number := range uint64(3) {
		ask(number + 1)
	}
	b.must(Revoke{Node{'a'}, b.m.Commands(), "burnt"}, CodeOK)
	ask(4)
	if _, left := b.m.Unfinished(); !left {
		t.Fatal("all ended in one step")
	}
	carriedOn(b)
	if i := b.m.Info(); i.Grants != 1 || b.m.session(sessionOf('a', 4)) == nil {
		t.Errorf("the later session has not what it was granted: %+v", i)
	}
	b.must(Goodbye{Node{'a'}, 1, Gone}, CodeOK)
	carriedOn(b)
	if i := b.m.Info(); i.Grants != 0 || i.Sessions != 0 {
		t.Errorf("a node that has ended keeps %+v", i)
	}
}

// What a former process waits for is withdrawn session by session, and from the first request of
// each: also where the session in which the last step stopped has gone meanwhile.
func TestTheWaitersOfAProcessAreAllWithdrawnThoughASessionEndsBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.m.Limit(Limits{Step: 3})
	const requests = 4
	for i := range uint64(requests) {
		b.must(acquire(i+1, fmt.Sprint("lock ", i)), CodeGranted)
		for number := range uint64(2) {
			c := acquire(i+1, fmt.Sprint("lock ", i))
			c.Session = sessionOf('b', number+1)
			b.must(c, CodeQueued)
		}
	}
	b.must(Hello{Node{'b'}, 2, "beta", Place{}, 0}, CodeOK)
	if first := b.m.anySession(sessionOf('b', 1)); b.m.Info().Waiters == 2*requests {
		t.Fatal("no step was taken")
	} else {
		b.must(Expire{first.id, first.renewed}, CodeOK)
	}
	if b.m.session(sessionOf('b', 1)) != nil || b.m.Info().Waiters <= requests/2 {
		t.Fatalf("not in the middle: %+v", b.m.Info())
	}
	carriedOn(b)
	if i := b.m.Info(); i.Waiters != 0 {
		t.Errorf("%d of a former process still wait", i.Waiters)
	}
}
