package holdfast

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/seam"
	"github.com/holdfast-go/holdfast/internal/session"
)

// asks sends the request of a call.
func asks(t *testing.T, c *Cluster, call session.Call, name string, wait bool, want fsm.Code) {
	t.Helper()
	cmd := fsm.Acquire{Session: call.Session.ID(), TTL: call.Session.TTL(), Request: call.Request, Name: name, Wait: wait}
	if out, _, err := c.propose(patient(t), cmd); err != nil || out.Code != want {
		t.Fatalf("request %d for %s: %v, %v; want %v", call.Request, name, out.Code, err, want)
	}
}

// began is a call of the session of an hour.
func began(t *testing.T, c *Cluster) session.Call {
	t.Helper()
	call, err := c.keeper.table.Ask(time.Hour, false, make(waiter, 1), c.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// The only call of a session gave up while its command was carried out, and was withdrawn: the
// answer to that said that the group has the session, and the node dropped it. It stayed there for
// a TTL, a day at most.
func TestASessionOpenedByACallThatGaveUpIsKnownOnceItIsWithdrawn(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{MaxTTL: TTLMax})
	call := began(t, c)
	s := call.Session
	asks(t, c, call, "x", true, fsm.CodeGranted)
	call.GiveUp(true)
	c.keeper.attend()
	becomes(t, "nothing but the session, which is known", func() bool {
		held, waiting := c.keeper.table.Counts()
		return known(t, c, s.ID().Number) && held+waiting == 0 && c.holderOf(t.Context(), "x").Token == 0 && s.Unfinished() == 0
	})
}

// A call gave up, and the group had no room to remember that its request was over. The node took
// the refusal for done: a late duplicate of the call's command took the lock for as long as the
// session lived, which others kept alive.
func TestARequestThatCouldNotBeWithdrawnForLackOfRoomIsWithdrawnLater(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{Spans: 2}, Config{MaxTTL: TTLMax})
	if _, err := c.Acquire(patient(t), "held", WithManualRenew()); err != nil {
		t.Fatal(err)
	}
	var calls []session.Call
	for i := range 4 { // every other one is over: two runs of numbers to remember, which is all that there is room for
		calls = append(calls, began(t, c))
		if i%2 == 0 {
			asks(t, c, calls[i], "held", true, fsm.CodeQueued)
		} else {
			asks(t, c, calls[i], "held", false, fsm.CodeHeld)
		}
	}
	late := began(t, c)
	s := late.Session
	c.keeper.table.Opened(s, true, c.clock.Now())
	late.GiveUp(true)
	c.keeper.pay(t.Context(), c.keeper.table.Owed())
	calls[2].GiveUp(true)
	c.keeper.attend()
	becomes(t, "room", func() bool {
		return became(t, c, calls[2]) == fsm.RequestFinished
	})
	cmd := fsm.Acquire{Session: s.ID(), TTL: s.TTL(), Request: late.Request, Name: "free"}
	if _, _, err := c.propose(patient(t), cmd); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the late duplicate has nothing", func() bool {
		return became(t, c, late) == fsm.RequestFinished
	})
}

// The first attempt of a write was on its way for long. Its holder heard that its outcome is
// unknown, and wrote another value; the late one came after that, and overwrote it: an older call
// that waits keeps the group from knowing that nobody asks for the first write any more.
func TestAWriteThatWasGivenUpDoesNotOverwriteALaterOneWhenItComes(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{MaxTTL: TTLMax})
	older := began(t, c)
	s := older.Session
	l, err := c.Acquire(patient(t), "x", WithTTL(time.Hour))
	if err != nil || l.grant.Session() != s {
		t.Fatal(err)
	}
	defer s.Finish(older.Request)
	late := began(t, c) // not to be heard of for a while
	c.keeper.mu.Lock()
	c.keeper.cleaners = cleaners // so that nobody cleans up in the background
	c.keeper.mu.Unlock()
	if err := l.wrote(l.writer(), late.Request, fsm.Outcome{}, true, ErrUnknownOutcome); !errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
	if err := l.Set(patient(t), []byte("B")); err != nil {
		t.Fatal(err)
	}
	first := fsm.SetValue{Session: s.ID(), Request: late.Request, Name: "x", Token: uint64(l.Token()), Value: []byte("A")}
	if out, _, err := c.propose(patient(t), first); err != nil || out.Code != fsm.CodeFinished {
		t.Errorf("the late write: %v, %v", out.Code, err)
	}
	if info, err := c.Inspect(patient(t), "x"); err != nil || string(info.Value) != "B" {
		t.Errorf("the value is %q, %v", info.Value, err)
	}
}

// A seed of sim/internal/model (187) found it: a request that was granted and then freed by an
// operator, both within a snapshot that the waiting call's node received, woke its call, which
// asked again under a new number. The old number stayed open for ever, and with it the session and
// what the group remembers of its requests.
func TestARequestThatASnapshotShowsToBeOverIsFinished(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		c := unopened(t)
		c.keeper.cleaners = cleaners // the test has no group to be told
		self := fsm.Process{Node: fsm.Node{1}, Incarnation: 1}
		c.keeper.table.Identify(self)
		wake := make(waiter, 1)
		call, err := c.keeper.table.Ask(time.Second, manual, wake, 1)
		if err != nil {
			t.Fatal(err)
		}
		m := fsm.New()
		apply := func(cmd fsm.Command) fsm.Outcome {
			out, _ := m.Apply(m.Applied()+1, fsm.ProcessOf(cmd), fsm.Encode(cmd))
			return out
		}
		apply(fsm.Birth{Cluster: [16]byte{1}})
		apply(fsm.Serve{})
		apply(fsm.Hello{Node: self.Node, Incarnation: self.Incarnation})
		token := apply(fsm.Acquire{Session: call.Session.ID(), TTL: time.Second, Request: call.Request, Name: "lock"}).Token
		apply(fsm.ForceRelease{Name: "lock", Token: token, Reason: "test"})
		c.keeper.Gap(m.Commands(), func(q fsm.Question) (fsm.Answer, error) { return m.Answer(q), nil })
		if _, err := c.await(t.Context(), call, wake, "lock", options{manual: manual}); !errors.Is(err, errAgain) {
			t.Fatalf("manual %v: %v", manual, err)
		}
		s := call.Session
		if held, waiting := c.keeper.table.Counts(); held+waiting > 0 || !manual && s.Unfinished() > 0 || manual && s.Ended() == nil {
			t.Errorf("manual %v: %d held, %d waiting, %d requests open, session over: %v", manual, held, waiting, s.Unfinished(), s.Ended())
		}
	}
}

// became is what became of a call, as far as its node knows.
func became(t *testing.T, c *Cluster, call session.Call) fsm.RequestState {
	t.Helper()
	state, err := seam.Ask(t.Context(), c.group, seam.Now, fsm.QueryClaims{
		Process:  c.self.Process(),
		Sessions: []fsm.SessionClaims{{Number: call.Session.ID().Number, Claims: []fsm.ClaimQuery{{Request: call.Request}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return state.Sessions[0].Claims[0].State
}

// A group that had no room for a write's number has none for its withdrawal: the node asked for that for ever, ten
// times a second.
func TestAWriteThatTheGroupHasNoRoomForIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{MaxTTL: TTLMax})
	older := began(t, c) // of which the group has not heard yet
	s := older.Session
	l, err := c.Acquire(patient(t), "x", WithTTL(time.Hour))
	if err != nil || l.grant.Session() != s {
		t.Fatal(err)
	}
	defer s.Finish(older.Request)
	c.keeper.mu.Lock()
	c.keeper.cleaners = cleaners // so that nobody cleans up in the background
	c.keeper.mu.Unlock()
	write := began(t, c)
	if err := l.wrote(l.writer(), write.Request, fsm.Outcome{Code: fsm.CodeTooManyRequests}, false, nil); !errors.Is(err, ErrExhausted) {
		t.Error(err)
	}
	if c.keeper.table.Owes() {
		t.Error("a withdrawal is owed")
	}
}
