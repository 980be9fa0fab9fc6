package session

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// A seed of sim/internal/model (2110) found it: a call that gave up before anything could be sent
// left its session behind. There was one for each TTL that was ever asked for without a raft
// leader, for as long as the process lived, and the keeper looked at them four times a second.
func TestACallThatGaveUpUnheardLeavesNoSessionBehind(t *testing.T) {
	t.Parallel()
	table := newTable()
	for i := range 1000 {
		ttl := time.Second + time.Duration(i)
		first, _ := asks(t, table, ttl, false, begins)
		second, _ := asks(t, table, ttl, false, begins)
		s := first.Session
		first.GiveUp(false)
		if table.Get(s.id.Number) != s || second.Session != s {
			t.Fatal("the session went although another call hangs on it")
		}
		second.GiveUp(false)
		again, _ := asks(t, table, ttl, false, begins)
		if again.Session == s {
			t.Fatal("a session that is gone is given to a new call")
		}
		again.GiveUp(false)
	}
	if !table.Empty() || len(table.shared) > 0 || table.numbers.Open() > 0 {
		t.Errorf("%d sessions, %d shared ones and %d numbers are left", len(table.All()), len(table.shared), table.numbers.Open())
	}
	sound(t, table, begins)
}

// What the group answers to a withdrawal says whether the command of the call has opened its
// session.
func TestAfterItsLastCallWasWithdrawnASessionIsKeptIfTheGroupHasIt(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{false, true} {
		g, table := newGroupOf(t), newTable()
		for _, cmd := range []fsm.Command{fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}} {
			g.apply(cmd)
		}
		c, _ := asks(t, table, time.Minute, false, begins)
		s := c.Session
		if carriedOut {
			g.apply(fsm.Acquire{Session: s.ID(), TTL: s.TTL(), Request: c.Request, Name: "lock", Wait: true})
		}
		c.GiveUp(true)
		for d := table.Owed(); d != nil; d = table.Owed() {
			for cmd := d.Command(); cmd != nil; cmd = d.Command() {
				d.Paid(g.apply(cmd), begins)
			}
		}
		if table.Empty() == carriedOut || (s.Until() != never) != carriedOut || g.m.Granted("lock", 1) {
			t.Errorf("carried out %v: forgotten %v, valid until %v", carriedOut, table.Empty(), s.Until())
		}
		sound(t, table, begins)
	}
}

// The group may have no room for a withdrawal for as long as other calls are open. Its process then
// tries one at a time, and pauses: it does not propose the same command again and again.
func TestAWithdrawalThatTheGroupHasNoRoomForPauses(t *testing.T) {
	t.Parallel()
	table := newTable()
	const calls = 3
	for range calls {
		c, _ := asks(t, table, time.Minute, false, begins)
		c.GiveUp(true)
	}
	d, proposed := table.Owed(), 0
	for cmd := d.Command(); cmd != nil && proposed <= 1+calls; cmd = d.Command() {
		proposed++
		d.Paid(fsm.Outcome{Code: fsm.CodeTooManyRequests}, begins)
	}
	if proposed != 1+calls || !d.Refused() || table.Owes() {
		t.Errorf("%d proposals, a pause %v, more at once %v", proposed, d.Refused(), table.Owes())
	}
	d.Again()
	if again := table.Owed(); again == nil || len(again.Command().(fsm.Withdraw).Requests) != calls {
		t.Error("what was refused is not tried again")
	}
}
