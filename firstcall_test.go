package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// The call that opened its session was queued, and then granted within a snapshot while its answer, "queued", was on
// its way: a snapshot was not compared with sessions that nobody knew to be open yet. The call was never woken, and
// its session was renewed for ever, and with it the lock that nobody held.
func TestTheFirstCallOfASessionIsWokenByASnapshotThatOvertakesItsAnswer(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, d := newGroupOf(t), newSide(t, false)
			for _, cmd := range []fsm.Command{
				fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{},
				fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}, fsm.Hello{Node: fsm.Node{2}, Incarnation: 1},
			} {
				g.apply(cmd)
			}
			g.takes("busy")
			s := d.c.keeper.session(time.Minute, manual)
			wake := make(chan wakeup, 1)
			request, _, err := s.begin(wake, d.c.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			out := g.apply(fsm.Acquire{Session: s.id, TTL: s.ttl, Request: request, Name: "busy", Wait: true})
			g.frees("busy", 0)
			observer{c: d.c}.Restored(g.m)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a manual session is renewed, without a group
			defer cancel()
			l, err := d.c.proceed(ctx, s, request, wake, "busy", options{manual: manual}, out, false)
			if err != nil || !l.Valid() || !g.m.Granted("busy", uint64(l.Token())) {
				t.Errorf("manual %v: the call that was granted %q ended with %v", manual, "busy", err)
			}
			if held, waiting := s.counts(); held != 1 || waiting != 0 {
				t.Errorf("manual %v: %d leases and %d calls on the session", manual, held, waiting)
			}
		})
	}
}
