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

// A client with a directory has a place in its Hello, as a node with a replica has. Where gossip does not
// see it, it lost its place in every queue each two seconds, though it renewed its session.
func TestWhoLosesItsReplicaKeepsItsWaitersIfItGoesOnAsAClient(t *testing.T) {
	t.Parallel()
	node := fsm.KeyNode([]byte("key"))
	for _, c := range []struct {
		name          string
		had, here     bool
		hello, renews uint64 // 0: neither since
		withdrawn     bool
	}{
		{"it has died", true, false, 0, 0, true},
		{"gossip sees it", true, true, 0, 0, false},
		{"it has renewed a session", true, false, 0, 8, false},
		{"it has said Hello", true, false, 8, 0, false},
		{"it never had a replica", false, false, 0, 0, false},
	} {
		record := fsm.NodeRecord{Node: node, Incarnation: 1, Since: 1, Place: fsm.Place{Boot: "boot"}}
		renewed := uint64(6)
		s := State{Renewed: func(fsm.Node, uint64) uint64 { return renewed }}
		s.Info.Commands, s.Known = 7, []fsm.NodeRecord{record}
		s.Seen = []Sighting{{Node: node.String(), Here: c.here}}
		if c.had {
			s.Members.Voters = map[uint64]string{1: node.String()}
		}
		l, withdrawn := New(Config{}), false
		l.Withdrawal(s, 1)
		s.Members.Voters, s.Info.Commands = nil, 9
		s.Known[0].Since, renewed = max(record.Since, c.hello), max(renewed, c.renews)
		for at := time.Duration(0); at < time.Minute; at += 100 * time.Millisecond {
			_, now := l.Withdrawal(s, lease.Instant(time.Hour+at))
			if now && at < goneTime {
				t.Errorf("%s: after %v", c.name, at)
			}
			withdrawn = withdrawn || now
		}
		if withdrawn != c.withdrawn {
			t.Errorf("%s: withdrawn is %v", c.name, withdrawn)
		}
	}
}
