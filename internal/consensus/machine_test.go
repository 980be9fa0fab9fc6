package consensus

import (
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/statemachine"

	"github.com/holdfast-go/holdfast/fsm"
)

// counting is an observer that counts events.
type counting struct{ events int }

func (o *counting) Applied(events []fsm.Event) { o.events += len(events) }
func (o *counting) Restored(*fsm.Machine)      {}
func (o *counting) LeaderChanged()             {}
func (o *counting) Failed(error)               {}

// What brought many events once, the end of a node with a million locks before that came in steps,
// left each replica with room for as many, 220 to 430 MB, for ever.
func TestTheRoomForTheEventsOfManyCommandsAtOnceIsGivenBack(t *testing.T) {
	t.Parallel()
	told := &counting{}
	m := newMachine(told, func(err error) { t.Error(err) })
	id := fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
	index := uint64(0)
	apply := func(cmds ...fsm.Command) {
		var entries []statemachine.Entry
		for _, cmd := range cmds {
			index++
			entries = append(entries, statemachine.Entry{Index: index, Cmd: append(id.Process().AppendTo(nil), fsm.Encode(cmd)...)})
		}
		if _, err := m.Update(entries); err != nil {
			t.Fatal(err)
		}
	}
	apply(birth())
	apply(fsm.Serve{})
	apply(fsm.Hello{Node: id.Node, Incarnation: id.Incarnation, Name: "a"})
	var many []fsm.Command
	for request := range uint64(2 * eventsKept) {
		many = append(many, fsm.Acquire{Session: id, TTL: time.Second, Request: request + 1, Name: "x", Terms: fsm.Terms{Mode: fsm.Shared}})
	}
	before := told.events
	apply(many...)
	if ended := told.events - before; ended < 2*eventsKept || cap(m.events) < 2*eventsKept {
		t.Fatalf("%d events in room for %d: the test shows nothing", ended, cap(m.events))
	}
	apply(fsm.Level{Level: 1})
	if cap(m.events) > eventsKept {
		t.Errorf("room for %d events is kept", cap(m.events))
	}
}
