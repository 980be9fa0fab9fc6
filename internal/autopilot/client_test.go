package autopilot

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// A client never has a replica. Before, every node without one lost its waiters after two seconds,
// and a group of two counted whoever had said Hello.
func TestAClientKeepsItsWaitersAndMakesNoGroupComplete(t *testing.T) {
	t.Parallel()
	client, voter := fsm.KeyNode([]byte("key")), fsm.Node{1}
	s := State{Members: Members{Voters: map[uint64]string{1: voter.String()}, Standbys: map[uint64]string{2: "b"}}}
	s.Info.Bootstrap, s.Info.Voters = 2, 2
	s.Known = []fsm.NodeRecord{{Node: voter, Incarnation: 1, Since: 1}, {Node: client, Incarnation: 1, Since: 2}}
	l := New(Config{})
	if l.Complete(s) {
		t.Error("a group of two serves with one of its nodes and a client")
	}
	at := func(d time.Duration) lease.Instant { return lease.Instant(time.Hour + d) }
	for d := time.Duration(0); d < 2*idleTime; d += time.Minute {
		if cmd, ok := l.Withdrawal(s, at(d)); ok {
			t.Fatalf("after %v: %+v", d, cmd)
		}
	}
	s.Known[1].Idle = true
	_, early := l.Withdrawal(s, at(2*idleTime))
	_, before := l.Withdrawal(s, at(3*idleTime-time.Minute))
	cmd, ok := l.Withdrawal(s, at(3*idleTime))
	if early || before || !ok || cmd.Node != client {
		t.Errorf("without a session: %v, %v, then %+v, %v", early, before, cmd, ok)
	}
	s.Known = s.Known[:1] // it has said good-bye
	if l.Withdrawal(s, at(3*idleTime)); len(l.gone) > 0 {
		t.Errorf("%d nodes are remembered that the group knows no more", len(l.gone))
	}
}
