package holdfast

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// asks sends a request of a session, as a call would.
func asks(t *testing.T, c *Cluster, s *session, request uint64, name string, wait bool, want fsm.Code) {
	t.Helper()
	cmd := fsm.Acquire{Session: s.id, TTL: s.ttl, Request: request, Name: name, Wait: wait}
	if out, _, err := c.proposer.propose(patient(t), cmd); err != nil || out.Code != want {
		t.Fatalf("request %d for %s: %v, %v; want %v", request, name, out.Code, err, want)
	}
}

func began(t *testing.T, s *session) uint64 {
	t.Helper()
	request, _, err := s.begin(make(chan wakeup, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// The only call of a session gave up while its command was carried out, and was withdrawn: the answer to that said that
// the group has the session, and the node dropped it. It stayed there for a TTL, a day at most.
func TestASessionOpenedByACallThatGaveUpIsKnownOnceItIsWithdrawn(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{})
	s := c.keeper.session(time.Hour, false)
	s.first = c.clock.Now()
	request := began(t, s)
	asks(t, c, s, request, "x", true, fsm.CodeGranted)
	c.giveUp(s, request, true)
	becomes(t, "nothing but the session, which is known", func() bool {
		held, waiting := c.keeper.counts()
		return sessionsOf(c)[s.id.Number] && held+waiting == 0 && c.holderOf("x").Token == 0 && s.requests.Open() == 0
	})
}

// A call gave up, and the group had no room to remember that its request was over. The node took the refusal for done:
// a late duplicate of the call's command took the lock for as long as the session lived, which others kept alive.
func TestARequestThatCouldNotBeWithdrawnForLackOfRoomIsWithdrawnLater(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{Spans: 2}, Config{})
	if _, err := c.Acquire(patient(t), "held", WithManualRenew()); err != nil {
		t.Fatal(err)
	}
	s := c.keeper.session(time.Hour, false)
	s.first = c.clock.Now()
	var requests []uint64
	for i := range 4 { // every other one is over: two runs of numbers to remember, which is all that there is room for
		requests = append(requests, began(t, s))
		if i%2 == 0 {
			asks(t, c, s, requests[i], "held", true, fsm.CodeQueued)
		} else {
			asks(t, c, s, requests[i], "held", false, fsm.CodeHeld)
		}
	}
	late := began(t, s)
	c.keeper.opened(s, true)
	s.abandon(late)
	c.keeper.clean.withdrawn(c.ctx, s, []uint64{late})
	c.giveUp(s, requests[2], true)
	becomes(t, "room", func() bool {
		group, _ := c.proposer.current()
		var state fsm.RequestState
		group.Read(func(m *fsm.Machine) { state, _ = m.Request(s.id, requests[2]) })
		return state == fsm.RequestFinished
	})
	cmd := fsm.Acquire{Session: s.id, TTL: s.ttl, Request: late, Name: "free"}
	if _, _, err := c.proposer.propose(patient(t), cmd); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the late duplicate has nothing", func() bool {
		group, _ := c.proposer.current()
		var state fsm.RequestState
		group.Read(func(m *fsm.Machine) { state, _ = m.Request(s.id, late) })
		return state == fsm.RequestFinished
	})
}

// The first attempt of a write was on its way for long. Its holder heard that its outcome is unknown, and wrote another
// value; the late one came after that, and overwrote it: an older call that waits keeps the group from knowing that
// nobody asks for the first write any more.
func TestAWriteThatWasGivenUpDoesNotOverwriteALaterOneWhenItComes(t *testing.T) {
	t.Parallel()
	c := lonely(t, fsm.Limits{}, Config{})
	s := c.keeper.session(time.Hour, false)
	s.first = c.clock.Now()
	older := began(t, s)
	l, err := c.Acquire(patient(t), "x", WithTTL(time.Hour))
	if err != nil || l.session != s {
		t.Fatal(err)
	}
	defer s.finish(older)
	late := began(t, s) // not to be heard of for a while
	c.keeper.clean.mu.Lock()
	c.keeper.clean.running = cleaners // so that nobody cleans up in the background
	c.keeper.clean.mu.Unlock()
	if err := l.wrote(l.writer(), late, fsm.Outcome{}, attempts{unknown: true}, ErrUnknownOutcome); !errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
	if err := l.Set(patient(t), []byte("B")); err != nil {
		t.Fatal(err)
	}
	first := fsm.SetValue{Session: s.id, Request: late, Name: "x", Token: uint64(l.Token()), Value: []byte("A")}
	if out, _, err := c.proposer.propose(patient(t), first); err != nil || out.Code != fsm.CodeFinished {
		t.Errorf("the late write: %v, %v", out.Code, err)
	}
	if info, err := c.Inspect(patient(t), "x"); err != nil || string(info.Value) != "B" {
		t.Errorf("the value is %q, %v", info.Value, err)
	}
}
