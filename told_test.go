package holdfast

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A node that lags far behind gets the state as a whole, and no single events: whoever waits on it must learn
// from the state alone what became of its request. Otherwise it waits for ever for a lock that it holds.
func TestASnapshotTellsThoseWhoWaitWhatBecameOfTheirRequests(t *testing.T) {
	t.Parallel()
	c := &Cluster{clock: clock.NewManual(), self: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1}}
	k := newKeeper(c)
	c.keeper = k
	s := k.session(time.Hour, false)
	wakes := make(map[string]chan wakeup)
	m := fsm.New()
	index := uint64(0)
	apply := func(cmd fsm.Command) fsm.Outcome {
		index++
		out, _ := m.Apply(index, fsm.ProcessOf(cmd), fsm.Encode(cmd))
		return out
	}
	apply(fsm.Birth{Cluster: [16]byte{1}})
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: fsm.Node{1}, Incarnation: 1})
	tokens := make(map[string]uint64)
	for _, name := range []string{"granted", "freed", "waited for"} {
		wakes[name] = make(chan wakeup, 1)
		if name == "waited for" {
			other := s.id
			other.Number = 99
			apply(fsm.Acquire{Session: other, TTL: time.Hour, Request: 1, Name: name})
		}
		request, _, err := s.begin(wakes[name], c.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = apply(fsm.Acquire{Session: s.id, TTL: s.ttl, Request: request, Acked: 1, Name: name, Wait: true}).Token
	}
	apply(fsm.ForceRelease{Name: "freed", Token: tokens["freed"], Reason: "test"})
	k.opened(s, true)
	k.restore(m)
	for name, want := range map[string]*wakeup{"granted": {token: tokens["granted"]}, "freed": {err: ErrLost}, "waited for": nil} {
		select {
		case got := <-wakes[name]:
			if want == nil || got.token != want.token || !errors.Is(got.err, want.err) {
				t.Errorf("the call for the lock that is %s was told %+v, want %+v", name, got, want)
			}
		default:
			if want != nil {
				t.Errorf("the call for the lock that is %s was told nothing", name)
			}
		}
	}
}

func TestASnapshotWithoutTheSessionEndsIt(t *testing.T) {
	t.Parallel()
	c := &Cluster{clock: clock.NewManual(), self: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1}}
	k := newKeeper(c)
	c.keeper = k
	s := k.session(time.Hour, false)
	if _, _, err := s.begin(make(chan wakeup, 1), c.clock.Now()); err != nil {
		t.Fatal(err)
	}
	k.opened(s, false)
	m := fsm.New()
	for i, cmd := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}, fsm.CloseSession{Session: s.id},
	} {
		m.Apply(uint64(i+1), fsm.ProcessOf(cmd), fsm.Encode(cmd))
	}
	k.restore(m)
	if s.until() != never || len(k.verdicts) != 1 {
		t.Errorf("valid until %v, %d verdicts", s.until(), len(k.verdicts))
	}
}

// A mutant showed that no test saw it: a replica that takes a state as a whole does not know how old the
// renewals in it are. It may only be late.
func TestASnapshotStartsEverySessionAnew(t *testing.T) {
	t.Parallel()
	now := clock.NewManual()
	now.Advance(24 * time.Hour)
	x := newExpirer(&Cluster{clock: now})
	m := fsm.New()
	for i, cmd := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1},
		fsm.Acquire{Session: fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}, TTL: time.Hour, Request: 1, Name: "lock"},
	} {
		m.Apply(uint64(i+1), fsm.ProcessOf(cmd), fsm.Encode(cmd))
	}
	x.restore(m)
	now.Advance(time.Hour - 1)
	if due, _ := x.table.Step(now.Now(), true); len(due) > 0 {
		t.Errorf("%v is to expire before its TTL", due)
	}
	now.Advance(1)
	if due, _ := x.table.Step(now.Now(), true); len(due) != 1 {
		t.Errorf("%v is to expire after its TTL, one session wanted", due)
	}
}
