package holdfast

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// A seed of internal/model (2110) found it: a call that gave up before anything could be sent left its session
// behind. There was one for each TTL that was ever asked for without a raft leader, for as long as the process
// lived, and the keeper looked at them four times a second.
func TestACallThatGaveUpUnheardLeavesNoSessionBehind(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	k := newKeeper(c)
	c.keeper = k
	for i := range 1000 {
		s := k.session(time.Second+time.Duration(i), false)
		first, _, err := s.begin(make(chan wakeup, 1), 1)
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := s.begin(make(chan wakeup, 1), 1)
		if err != nil {
			t.Fatal(err)
		}
		c.giveUp(s, first, false)
		if k.get(s.id.Number) != s {
			t.Fatal("the session went although another call hangs on it")
		}
		c.giveUp(s, second, false)
		if again := k.session(s.ttl, false); again == s {
			t.Fatal("a session that is gone is given to a new call")
		} else {
			k.discard(again)
		}
	}
	if len(k.sessions) > 0 || len(k.shared) > 0 || k.numbers.Open() > 0 {
		t.Errorf("%d sessions, %d shared ones and %d numbers are left", len(k.sessions), len(k.shared), k.numbers.Open())
	}
}

// A seed of internal/model (187) found it: a request that was granted and then freed by an operator, both within
// a snapshot that the waiting call's node received, woke its call, which asked again under a new number. The
// old number stayed open for ever, and with it the session and what the group remembers of its requests.
func TestARequestThatASnapshotShowsToBeOverIsFinished(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		c := &Cluster{clock: clock.System()}
		c.keeper = newKeeper(c)
		s := c.keeper.session(time.Second, manual)
		wake := make(chan wakeup, 1)
		request, _, err := s.begin(wake, 1)
		if err != nil {
			t.Fatal(err)
		}
		c.keeper.revoke(s, request, nil)
		if manual {
			s.judge(ErrExpired) // the test has no group to be told
		}
		if _, err := c.await(t.Context(), s, request, wake, "lock", options{manual: manual}); !errors.Is(err, errAgain) {
			t.Fatalf("manual %v: %v", manual, err)
		}
		if held, waiting := c.keeper.counts(); held+waiting > 0 || !manual && s.requests.Open() > 0 || manual && s.over == nil {
			t.Errorf("manual %v: %d held, %d waiting, %d requests open, session over: %v", manual, held, waiting, s.requests.Open(), s.over)
		}
	}
}
