package holdfast

import (
	"testing"
	"time"
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
