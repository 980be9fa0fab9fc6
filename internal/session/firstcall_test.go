package session

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// The call that opened its session was queued, and then granted within a snapshot while its answer,
// "queued", was on its way: a snapshot was not compared with sessions that nobody knew to be open
// yet. The call was never woken, and its session was renewed for ever, and with it the lock that
// nobody held.
func TestTheFirstCallOfASessionIsWokenByASnapshotThatOvertakesItsAnswer(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		g, table, h := newGroupOf(t), newTable(), &hold{}
		for _, cmd := range []fsm.Command{
			fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{},
			fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}, fsm.Hello{Node: fsm.Node{2}, Incarnation: 1},
		} {
			g.apply(cmd)
		}
		g.takes("busy")
		c, w := asks(t, table, time.Minute, manual, begins)
		out := g.apply(fsm.Acquire{Session: c.Session.ID(), TTL: time.Minute, Request: c.Request, Name: "busy", Wait: true})
		g.frees("busy", 0)
		restore(table, g.m)
		if next := c.Answered(out, false, begins); next != Wait || !w.told || w.err != nil {
			t.Fatalf("manual %v: the call goes on with %v, was told %+v", manual, next, w)
		}
		if manual {
			table.HandOver(c.Session, begins)
		}
		if !h.take(c, w.token, Terms{}, begins) || !h.valid(begins) || !g.m.Granted("busy", h.grant.Token()) {
			t.Errorf("manual %v: the call that was granted %q has no lease", manual, "busy")
		}
		if held, waiting := c.Session.Counts(); held != 1 || waiting != 0 {
			t.Errorf("manual %v: %d leases and %d calls on the session", manual, held, waiting)
		}
		sound(t, table, begins)
	}
}
