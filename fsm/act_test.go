package fsm

import (
	"bytes"
	"strings"
	"testing"
)

// An operator's order is on record with the process at which it was given. Nobody can sign as another, and the
// record changes nothing else.
func TestAnActIsHeardAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(Via{Hello{client, 1, "client", Place{}, 0}}, CodeOK)
	b.must(acquire(1, "x"), CodeGranted)
	own := Act{Process{Node{'a'}, 1}, ActResizeLimit, Node{'b'}, "x", 7, 3, "it grows"}
	state := func(m *Machine) []byte {
		m = m.Fork()
		m.applied, m.commands = 0, 0
		return snapshot(m)
	}
	said := func(what string, c Command, by Node, want Code) {
		t.Helper()
		m := b.m.Fork()
		before := state(m)
		o, events := m.Apply(m.Applied()+1, Process{by, 1}, Encode(c))
		if o.Code != want || !bytes.Equal(state(m), before) {
			t.Errorf("%s: %v, want %v; the state has changed: %v", what, o.Code, want, !bytes.Equal(state(m), before))
		}
		switch heard := len(events) == 1; {
		case heard != (want == CodeOK):
			t.Errorf("%s: heard %+v", what, events)
		case heard:
			e := events[0]
			if e.Kind != EventAct || e.Act != own.Kind || e.By != by || e.Session.Node != own.Node || e.Name != own.Name ||
				e.Token != own.Token || e.Limit != own.Limit || e.Detail != own.Reason || e.Index != m.Commands() {
				t.Errorf("%s: heard %+v", what, e)
			}
		}
	}
	said("of a replica's node", own, Node{'a'}, CodeOK)
	said("of another node", own, Node{'b'}, CodeForbidden)
	said("of a replica's node, as of a client", Via{own}, Node{'a'}, CodeForbidden)
	bad := own
	bad.Kind = actEnd
	said("of no kind", bad, Node{'a'}, CodeInvalid)
	bad = own
	bad.Reason = strings.Repeat("x", LabelBytesMax+1)
	said("with a long reason", bad, Node{'a'}, CodeInvalid)
	bad = own
	bad.Name = "\n"
	said("of no name", bad, Node{'a'}, CodeInvalid)
	m := b.m.Fork()
	own.By.Node = client
	if o, events := m.Apply(m.Applied()+1, Process{Node{'a'}, 1}, Encode(Via{own})); o.Code != CodeOK || len(events) != 1 || events[0].By != client {
		t.Errorf("of a client: %v, heard %+v", o.Code, events)
	}
}
