package wire

import (
	"slices"
	"testing"

	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/holdfast-go/holdfast/fsm"
)

func TestOnlyTheSendersOwnCommandsAreTaken(t *testing.T) {
	t.Parallel()
	sender := fsm.Process{Node: fsm.Node{1}, Incarnation: 7}
	by := func(p fsm.Process) raftpb.Entry {
		return raftpb.Entry{Type: raftpb.EncodedEntry, Cmd: append(p.AppendTo([]byte{0}), fsm.Encode(fsm.Serve{})...)}
	}
	other := fsm.Process{Node: fsm.Node{2}, Incarnation: 7}
	change := raftpb.Entry{Type: raftpb.ConfigChangeEntry}
	kept := ownProposals([]raftpb.Message{
		{Type: raftpb.Propose, Entries: []raftpb.Entry{by(sender), by(other), change}},
		{Type: raftpb.Propose, Entries: []raftpb.Entry{by(other), {Type: raftpb.EncodedEntry, Cmd: []byte{0, 1}}}},
		{Type: raftpb.Replicate, Entries: []raftpb.Entry{by(other)}},
	}, sender)
	if len(kept) != 2 || len(kept[0].Entries) != 1 || kept[0].Entries[0].Type != raftpb.EncodedEntry || len(kept[1].Entries) != 1 {
		t.Errorf("kept %+v", kept)
	}
}

// entryOf is an entry that authored proposed.
func entryOf(cmd []byte) raftpb.Entry {
	return raftpb.Entry{Type: raftpb.EncodedEntry, ClientID: 1, Key: 1, Cmd: authored(cmd...)}
}

func TestABatchThatWouldStopReplicasOrHidesAHelloIsRefused(t *testing.T) {
	t.Parallel()
	id := fsm.SessionID{Node: fsm.Node{1}, Incarnation: 1, Number: 1}
	good := fsm.AppendToBatch(fsm.AppendBatch(nil), fsm.Encode(fsm.CloseSession{Session: id}))
	for name, c := range map[string]struct {
		cmd     []byte
		refused bool
	}{
		"good":            {good, false},
		"newer operation": {fsm.AppendToBatch(slices.Clone(good), []byte{1, 250}), true},
		"newer version":   {fsm.AppendToBatch(slices.Clone(good), []byte{2, 6}), true},
	} {
		v, m := testValidator(), goodBatch(proposal(entryOf(c.cmd)))
		if _, err := v.batch(&m); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	hello := fsm.Hello{Node: id.Node, Incarnation: id.Incarnation}
	e := entryOf(fsm.AppendToBatch(slices.Clone(good), fsm.Encode(hello)))
	m := fsm.New()
	by, cmd := cutEncoded(&e)
	if out, _ := m.Apply(1, by, cmd); out.Code != fsm.CodeInvalid {
		t.Errorf("the machine carries out a batch with a Hello, for which the log is not searched: %v", out)
	}
}
