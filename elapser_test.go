package holdfast

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A replica that takes a state as a whole does not know how old the rests in it are. It may only be late; and it
// must know them, or a place would stay taken for ever once the others are gone.
func TestASnapshotStartsEveryRestAnew(t *testing.T) {
	t.Parallel()
	now := clock.NewManual()
	now.Advance(24 * time.Hour)
	x := newElapser(&Cluster{clock: now}, func() {})
	session := fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
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
	out := apply(fsm.Acquire{Session: session, TTL: time.Hour, Request: 1, Name: "rationed"})
	grant := fsm.Grant{Name: "rationed", Token: out.Token}
	apply(fsm.Release{Session: session, Grants: []fsm.Grant{grant}, Rest: time.Minute})
	x.restore(m)
	due := now.Now().Add(time.Minute)
	if early, _ := x.table.Rests(due-1, true, 10); len(early) != 0 {
		t.Errorf("%v is to end before its time", early)
	}
	if ends, _ := x.table.Rests(due, true, 10); len(ends) != 1 || ends[0] != fsm.EndRest(grant) {
		t.Errorf("%v is to end after its time, one rest wanted", ends)
	}
}

// Otherwise every rest that ever was would cost memory and be proposed again for ever.
func TestARestThatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	x := newElapser(&Cluster{clock: clock.NewManual()}, func() {})
	x.note(&fsm.Event{Kind: fsm.EventResting, Name: "rationed", Token: 7, TTL: time.Minute})
	if n := x.table.Len(); n != 1 {
		t.Fatalf("%d rests are timed, one wanted", n)
	}
	x.note(&fsm.Event{Kind: fsm.EventRested, Name: "rationed", Token: 7})
	if n := x.table.Len(); n != 0 {
		t.Errorf("%d rests are timed after their end", n)
	}
}

// A replica that takes a state as a whole was told of no end in it: what is left of one would stay taken for ever.
func TestASnapshotTellsOfWhatHasEndedAndIsStillThere(t *testing.T) {
	t.Parallel()
	woken := 0
	x := newElapser(&Cluster{clock: clock.NewManual()}, func() { woken++ })
	m := fsm.NewLimited(fsm.Limits{Step: 1})
	apply := func(cmd fsm.Command) (kinds []fsm.EventKind) {
		_, events := m.Apply(m.Applied()+1, fsm.ProcessOf(cmd), fsm.Encode(cmd))
		for _, e := range events {
			x.note(&e)
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	session := fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
	apply(fsm.Birth{Cluster: [16]byte{1}})
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: fsm.Node{1}, Incarnation: 1})
	for i := range uint64(2) {
		apply(fsm.Acquire{Session: session, TTL: time.Hour, Request: i + 1, Name: string('a' + rune(i))})
	}
	if x.restore(m); x.steps {
		t.Error("it takes steps of nothing")
	}
	woken = 0
	if apply(fsm.CloseSession{Session: session}); !x.steps || woken == 0 {
		t.Error("it is not told that something is left")
	}
	x.steps, woken = false, 0
	if x.restore(m); !x.steps || woken == 0 {
		t.Error("it does not see that something is left")
	}
}
