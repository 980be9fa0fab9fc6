package session

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fsm"
)

// restore lets a table catch up with a state.
func restore(t *Table, m *fsm.Machine) {
	err := t.Restore(func(q fsm.QueryClaims) (fsm.ClaimsState, error) {
		answer, _ := q.Read(m.Answer(q))
		return answer, nil
	})
	if err != nil {
		panic(err)
	}
}

// A node that lags far behind gets the state as a whole, and no single events: a call that waits on it
// must learn from the state alone what became of its request. Otherwise it waits for ever for a
// lock that it holds.
func TestASnapshotTellsThoseWhoWaitWhatBecameOfTheirRequests(t *testing.T) {
	t.Parallel()
	table := newTable()
	var s *Session
	waits := make(map[string]*call)
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
		c, w := asks(t, table, time.Hour, false, begins)
		s, waits[name] = c.Session, w
		if name == "waited for" {
			other := s.id
			other.Number = 99
			apply(fsm.Acquire{Session: other, TTL: time.Hour, Request: 1, Name: name})
		}
		tokens[name] = apply(fsm.Acquire{Session: s.id, TTL: s.TTL(), Request: c.Request, Acked: 1, Name: name, Wait: true}).Token
	}
	apply(fsm.ForceRelease{Name: "freed", Token: tokens["freed"], Reason: "test"})
	table.Opened(s, true, begins)
	restore(table, m)
	for name, want := range map[string]call{"granted": {told: true, token: tokens["granted"]}, "freed": {told: true, err: ErrLost}, "waited for": {}} {
		if got := waits[name]; got.told != want.told || got.token != want.token || !errors.Is(got.err, want.err) {
			t.Errorf("the call for the lock that is %s was told %+v, want %+v", name, *got, want)
		}
	}
	sound(t, table, begins)
}

func TestASnapshotWithoutTheSessionEndsIt(t *testing.T) {
	t.Parallel()
	table := newTable()
	c, _ := asks(t, table, time.Hour, false, begins)
	s := c.Session
	table.Opened(s, false, begins)
	m := fsm.New()
	for i, cmd := range []fsm.Command{
		fsm.Birth{Cluster: [16]byte{1}}, fsm.Serve{}, fsm.Hello{Node: fsm.Node{1}, Incarnation: 1}, fsm.CloseSession{Session: s.id},
	} {
		m.Apply(uint64(i+1), fsm.ProcessOf(cmd), fsm.Encode(cmd))
	}
	restore(table, m)
	if s.Until() != never || !table.Urgent() {
		t.Errorf("valid until %v, urgent %v", s.Until(), table.Urgent())
	}
	sound(t, table, begins)
	table.Step(begins)
	if !table.Empty() || table.Owes() {
		t.Errorf("%d sessions, owes %v", len(table.All()), table.Owes())
	}
}
