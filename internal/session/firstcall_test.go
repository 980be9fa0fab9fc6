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

// The first of two calls came to the group before its process had said Hello, and the other after it
// had: the answer to the first ended the session, without a word to the group, which had just opened it for
// the second. That one found its grant over and asked again, and the lock was held by nobody for a TTL.
func TestACallThatCameBeforeItsProcessLeavesTheSessionOfAnother(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} { // whether the first answer comes after the second
		g, table, first, second := newGroupOf(t), newTable(), &hold{}, &hold{}
		g.apply(fsm.Birth{Cluster: [16]byte{1}})
		g.apply(fsm.Serve{})
		a, _ := asks(t, table, time.Minute, false, begins)
		b, _ := asks(t, table, time.Minute, false, begins)
		if a.Session != b.Session {
			t.Fatal("the calls share no session")
		}
		acquire := func(c Call, name string) fsm.Outcome {
			return g.apply(fsm.Acquire{Session: c.Session.ID(), TTL: time.Minute, Request: c.Request, Name: name})
		}
		unknown := acquire(a, "a")
		g.apply(fsm.Hello{Node: fsm.Node{1}, Incarnation: 1})
		granted := acquire(b, "b")
		answers := []func(){
			func() {
				if next := a.Answered(unknown, false, begins); unknown.Code != fsm.CodeUnknownNode || next != Refused {
					t.Fatalf("%v: the first call goes on with %v", unknown.Code, next)
				}
			},
			func() {
				if next := b.Answered(granted, false, begins); next != Take || !second.take(b, granted.Token, Terms{}, begins) {
					t.Fatalf("late %v: %v: the second call goes on with %v, and its lock is held by nobody", late, granted.Code, next)
				}
			},
		}
		if late {
			answers[0], answers[1] = answers[1], answers[0]
		}
		for _, answer := range answers {
			answer()
		}
		again, _ := asks(t, table, time.Minute, false, begins)
		out := acquire(again, "a")
		if next := again.Answered(out, false, begins); next != Take || !first.take(again, out.Token, Terms{}, begins) {
			t.Fatalf("late %v: %v: the first call, made again, goes on with %v", late, out.Code, next)
		}
		if !first.valid(begins) || !second.valid(begins) {
			t.Errorf("late %v: a lease is over", late)
		}
		sound(t, table, begins)
	}
}
